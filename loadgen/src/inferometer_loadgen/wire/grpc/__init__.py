"""gRPC client over HTTP/2: connection, frames, header compression and reply template."""
