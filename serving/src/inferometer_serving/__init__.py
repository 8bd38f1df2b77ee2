"""A server of one ONNX model over the Open Inference Protocol, with ONNX Runtime."""

import os
import time

BEGAN_MICROSECONDS = time.time_ns() // 1000
"""When the interpreter came to the server's first line, in Unix time."""

# ONNX Runtime reports its usage to its makers, from a thread of its own and through a database in
# the home directory, unless this is set before it is loaded. What is measured must do neither.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
