"""A policy of the API server that refuses figures in a status."""

import json

from support.api_client import AnswerError, Object
from support.stage import Stage


def refuse_figures(stage: Stage, kind: str, probe: str) -> str:
    """Refuse every status of a kind with columns, and wait until that holds; return its name.

    `probe` is an object of the kind, which is deleted then.
    """
    name = f"no-figures-{kind.lower()}-{stage.namespace}"
    rule = {
        "apiGroups": ["inferometer.dev"],
        "apiVersions": ["*"],
        "operations": ["UPDATE"],
        "resources": [f"{kind.lower()}s/status"],
    }
    here = {"matchLabels": {"kubernetes.io/metadata.name": stage.namespace}}
    policy: Object = {
        "kind": "ValidatingAdmissionPolicy",
        "spec": {
            "matchConstraints": {"resourceRules": [rule]},
            "validations": [
                {
                    "expression": "!has(object.status.display)",
                    "message": "no figures in a status",
                }
            ],
        },
    }
    binding: Object = {
        "kind": "ValidatingAdmissionPolicyBinding",
        "spec": {
            "policyName": name,
            "validationActions": ["Deny"],
            "matchResources": {"namespaceSelector": here},
        },
    }
    for each in (policy, binding):
        made = {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "metadata": {"name": name},
            **each,
        }
        stage.control_plane.kubectl("apply", "-f", "-", stdin=json.dumps(made))

    def refuses() -> bool:
        try:
            stage.api.merge(kind, stage.namespace, probe, {"status": {"display": {}}}, "status")
        except AnswerError:
            return True
        return False

    stage.wait_for(refuses, "the policy to hold")
    stage.api.delete(kind, stage.namespace, probe)
    return name


def allow_figures(stage: Stage, name: str) -> None:
    """Delete the policy."""
    stage.control_plane.kubectl(
        "delete", "validatingadmissionpolicybinding,validatingadmissionpolicy", name
    )
