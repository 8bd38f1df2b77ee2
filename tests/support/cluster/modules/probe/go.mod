// The program of the pods that the harness is tried with: pinned by being here.
module inferometer.dev/tests/probe

go 1.24.0
