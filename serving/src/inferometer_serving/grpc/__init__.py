"""gRPC: the protocol's calls and messages."""
