// The program of the pause container: pinned by being here.
module inferometer.dev/tests/pause

go 1.24.0
