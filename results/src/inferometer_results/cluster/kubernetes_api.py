"""Requests to the API server: who a caller is, what they may do, which namespaces exist."""

import json
from pathlib import Path
from typing import Any

import aiohttp
from kubernetes.aio import config
from kubernetes.aio.client import ApiClient, Configuration

from inferometer_results.service.access.cluster import ReviewError

_TIMEOUT = aiohttp.ClientTimeout(total=10.0)
_METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"


class KubernetesApi:
    """Sends requests with the rights of the service's account."""

    def __init__(self, settled: Configuration) -> None:
        self._client = ApiClient(settled)

    async def close(self) -> None:
        """Close every connection."""
        await self._client.close()  # type: ignore[no-untyped-call]  # the library's own

    async def get(self, path: str, *, accept: str = "application/json") -> Any:
        """Return what is at a path, None if nothing is. Raises ReviewError."""
        return await self._request("GET", path, None, accept)

    async def post(self, path: str, body: dict[str, Any]) -> Any:
        """Send an object and return the answer. Raises ReviewError."""
        return await self._request("POST", path, body, "application/json")

    async def namespace_uids(self) -> dict[str, str]:
        """Return the UID of each namespace, by its name."""
        found: dict[str, str] = {}
        query = "resourceVersion=0"
        while True:
            answer = await self.get(f"/api/v1/namespaces?{query}", accept=_METADATA_LIST)
            items = (answer or {}).get("items") or ()
            found |= {each["metadata"]["name"]: each["metadata"]["uid"] for each in items}
            following = ((answer or {}).get("metadata") or {}).get("continue")
            if not following:
                return found
            query = f"continue={following}"

    async def _request(self, method: str, path: str, body: Any, accept: str) -> Any:
        headers = {"Content-Type": "application/json", "Accept": accept}
        try:
            request = await self._client.param_serialize(
                method, path, header_params=headers, body=body, auth_settings=["BearerToken"]
            )
            answer = (await self._client.call_api(*request, _request_timeout=_TIMEOUT)).response
            async with answer:
                if (method, answer.status) == ("GET", 404):
                    return None
                text = await answer.read()
                if answer.status >= 400:
                    raise ReviewError(_unanswered(f"it answers with status {answer.status}"))
                return json.loads(text)
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            raise ReviewError(_unanswered(str(error) or type(error).__name__)) from error


async def cluster_configuration(kubeconfig: Path | None) -> Configuration:
    """Return how to reach the cluster: by this file, else by the pod's service account."""
    found = Configuration()
    if kubeconfig is None:
        config.load_incluster_config(found)  # type: ignore[no-untyped-call]  # the library's own
    else:
        await config.load_kube_config(  # type: ignore[no-untyped-call]  # the library's own
            str(kubeconfig), client_configuration=found
        )
    found.retries = None
    return found


def _unanswered(reason: str) -> str:
    return (
        "Results are not shown as long as the API server does not say who may read them: "
        f"{reason}. Try again later."
    )
