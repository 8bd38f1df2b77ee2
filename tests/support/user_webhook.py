"""A mutating webhook that gives pods a user, as a namespace's policy on OpenShift does.

Run by its path: user_webhook.py CERTIFICATE KEY PORT USER_ID.
"""

import json
import ssl
import sys
from base64 import b64encode
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

HOST = "127.0.0.1"


class _Handler(BaseHTTPRequestHandler):
    user_id = 0

    def do_POST(self) -> None:
        """Admit a pod with this user and group of files; its own group stays 0."""
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        pod = review["request"]["object"]
        context = pod["spec"].get("securityContext") or {}
        named = {"runAsUser", "runAsGroup", "fsGroup"} & context.keys()
        user = {"runAsUser": self.user_id, "fsGroup": self.user_id}
        value = {**context, **user}
        patch = [{"op": "add", "path": "/spec/securityContext", "value": value}]
        review["response"] = {
            "uid": review["request"]["uid"],
            # The policy refuses a user of another range.
            "allowed": not named,
            "patchType": "JSONPatch",
            "patch": b64encode(json.dumps(patch).encode()).decode(),
        }
        body = json.dumps(review).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _serve(certificate: Path, key: Path, port: int, user_id: int) -> None:
    _Handler.user_id = user_id
    server = ThreadingHTTPServer((HOST, port), _Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    sys.stdout.write("serving\n")
    sys.stdout.flush()
    server.serve_forever()


if __name__ == "__main__":
    _serve(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
