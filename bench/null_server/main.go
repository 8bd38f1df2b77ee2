// Command null_server answers the Open Inference Protocol with replies that were made before.
//
//	null_server REPLIES.json [proxied]
//
// The file names, for each path of HTTP and each full method of gRPC, the bytes of the one reply.
// Nothing of a request is read but its id, which comes back: so net/http and grpc-go are as fast
// here as they can be. It says its ports on standard output and ends with standard input. With the
// word proxied each reply has the headers that Envoy adds, some of them never twice the same.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/grpc"
)

const jsonLength = "Inference-Header-Content-Length"

// Replies is what the file holds; []byte is base64 there.
type Replies struct {
	HTTP map[string]HTTPReply `json:"http"`
	GRPC map[string][]byte    `json:"grpc"`
}

// HTTPReply is the answer of one path.
type HTTPReply struct {
	Headers map[string]string `json:"headers"`
	Body    []byte            `json:"body"`
}

func main() {
	log.SetFlags(0)
	if len(os.Args) < 2 || len(os.Args) > 3 || (len(os.Args) == 3 && os.Args[2] != "proxied") {
		log.Fatal("null_server takes one file of replies, and perhaps the word proxied.")
	}
	proxied := len(os.Args) == 3
	text, err := os.ReadFile(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	var replies Replies
	if err := json.Unmarshal(text, &replies); err != nil {
		log.Fatalf("%s holds no replies: %v", os.Args[1], err)
	}
	web, calls := listen(), listen()
	go func() { log.Fatal(http.Serve(web, httpHandler(replies.HTTP, proxied))) }()
	go func() { log.Fatal(grpcServer(replies.GRPC, proxied).Serve(calls)) }()
	fmt.Printf("{\"httpPort\": %d, \"grpcPort\": %d}\n", port(web), port(calls))
	_, _ = io.Copy(io.Discard, os.Stdin)
}

func listen() net.Listener {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	return listener
}

func port(listener net.Listener) int { return listener.Addr().(*net.TCPAddr).Port }

func httpHandler(replies map[string]HTTPReply, proxied bool) http.Handler {
	return http.HandlerFunc(func(writer http.ResponseWriter, request *http.Request) {
		reply, known := replies[strings.TrimSuffix(request.URL.Path, "/")]
		if !known {
			http.NotFound(writer, request)
			return
		}
		id := idInJSON(request.Body)
		_, _ = io.Copy(io.Discard, request.Body)
		headers := writer.Header()
		for name, value := range reply.Headers {
			headers[name] = []string{value}
		}
		if proxied {
			for name, value := range addedByProxy() {
				headers.Set(name, value)
			}
		}
		body := reply.Body
		if len(id) > 0 && headers[jsonLength] != nil {
			body = slices.Concat(body[:1], id, []byte(","), body[1:])
			length, _ := strconv.Atoi(reply.Headers[jsonLength])
			headers[jsonLength] = []string{strconv.Itoa(length + len(id) + 1)}
		}
		headers["Content-Length"] = []string{strconv.Itoa(len(body))}
		_, _ = writer.Write(body)
	})
}

func grpcServer(replies map[string][]byte, proxied bool) *grpc.Server {
	server := grpc.NewServer(grpc.ForceServerCodecV2(rawCodec{}), grpc.MaxRecvMsgSize(1<<30))
	services := map[string]*grpc.ServiceDesc{}
	for full, reply := range replies {
		service, method, _ := strings.Cut(strings.TrimPrefix(full, "/"), "/")
		if services[service] == nil {
			services[service] = &grpc.ServiceDesc{ServiceName: service}
		}
		services[service].Methods = append(services[service].Methods, unary(method, reply, proxied))
	}
	for _, service := range services {
		server.RegisterService(service, nil)
	}
	return server
}
