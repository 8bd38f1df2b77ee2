package main

import (
	"fmt"
	"sync/atomic"
	"time"
)

var answered atomic.Uint64

// addedByProxy returns what Envoy writes into each reply.
func addedByProxy() map[string]string {
	number := answered.Add(1)
	id := number * 0x9E3779B97F4A7C15 // spread over all digits
	return map[string]string{
		"server":                        "envoy",
		"date":                          time.Now().UTC().Format(time.RFC1123),
		"x-request-id":                  fmt.Sprintf("%08x-%04x-4%03x-a%03x-%012x", id>>32, id>>16&0xffff, id&0xfff, number&0xfff, id&0xffffffffffff),
		"x-envoy-upstream-service-time": fmt.Sprint(number % 7),
	}
}
