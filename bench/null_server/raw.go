package main

import (
	"context"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
)

// rawCodec takes messages as the bytes they are; of a request only the id is kept.
type rawCodec struct{}

func (rawCodec) Marshal(message any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(message.([]byte))}, nil
}

func (rawCodec) Unmarshal(data mem.BufferSlice, message any) error {
	if len(data) > 0 {
		*message.(*[]byte) = idInMessage(data[0].ReadOnlyData())
	}
	return nil
}

func (rawCodec) Name() string { return "proto" }

func unary(method string, reply []byte, proxied bool) grpc.MethodDesc {
	handler := func(
		_ any, call context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor,
	) (any, error) {
		var id []byte
		if err := decode(&id); err != nil {
			return nil, err
		}
		if proxied {
			if err := grpc.SetHeader(call, metadata.New(addedByProxy())); err != nil {
				return nil, err
			}
		}
		if method != "ModelInfer" || len(id) == 0 {
			return reply, nil
		}
		return slices.Concat(reply, id), nil // the order of fields means nothing
	}
	return grpc.MethodDesc{MethodName: method, Handler: handler}
}
