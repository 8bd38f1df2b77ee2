// Command probe is what the pods of the harness's own tests run.
//
//	probe serve         answers every HTTP request on port 8080 with the pod's name
//	probe get URL       writes what the URL answers, trying until it does
package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

func main() {
	switch {
	case len(os.Args) == 2 && os.Args[1] == "serve":
		serve()
	case len(os.Args) == 3 && os.Args[1] == "get":
		get(os.Args[2])
	default:
		fmt.Fprintln(os.Stderr, "probe serve | probe get URL")
		os.Exit(2)
	}
}

func serve() {
	name, _ := os.Hostname()
	answer := func(writer http.ResponseWriter, _ *http.Request) { fmt.Fprint(writer, name) }
	fmt.Fprintln(os.Stderr, http.ListenAndServe(":8080", http.HandlerFunc(answer)))
	os.Exit(1)
}

func get(url string) {
	client := http.Client{Timeout: 2 * time.Second}
	for {
		reply, err := client.Get(url)
		if err == nil && reply.StatusCode == http.StatusOK {
			_, _ = io.Copy(os.Stdout, reply.Body)
			return
		}
		time.Sleep(200 * time.Millisecond)
	}
}
