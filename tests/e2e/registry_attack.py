"""What a tenant tries who wants another's archives: run in a pod of the attacker's namespace by registry_test.cpp.

    registry_attack.py AGENT_API REGISTRY OWN VICTIM MANIFEST LAYER

AGENT_API and REGISTRY are addresses ("10.0.0.1:443"), OWN and VICTIM repositories, MANIFEST and LAYER digests in the victim's.
Prints one line of JSON: for each thing tried the HTTP status, or the actions that a token opens.
"""

import base64
import json
import ssl
import sys
import urllib.error
import urllib.request

AGENT_API, REGISTRY, OWN, VICTIM, MANIFEST, LAYER = sys.argv[1:]
MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"
# The server's name is not what is attacked here.
UNCHECKED = ssl._create_unverified_context()


def ask(method, url, token, body=None, kind="application/json"):
    headers = {"Authorization": "Bearer " + token, "Content-Type": kind, "Accept": MANIFEST_TYPE}
    request = urllib.request.Request("https://" + url, method=method, data=body, headers=headers)
    try:
        with urllib.request.urlopen(request, context=UNCHECKED, timeout=20) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def opens(token):
    """What a token of the registry says that its holder may do."""
    claims = token.split(".")[1]
    access = json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))["access"]
    return {entry["name"]: sorted(entry["actions"]) for entry in access or []}


def main():
    with open("/var/run/attack/token") as file:
        pod_token = file.read()
    with open("/var/run/secrets/kubernetes.io/serviceaccount/token") as file:
        account_token = file.read()
    _, answer = ask("POST", AGENT_API + "/v1/registry-token", pod_token, b'{"push": true}')
    mine = json.loads(answer)["token"]
    person = AGENT_API + "/v1/registry/token?service=registry&scope=repository:%s:pull,push,delete"
    told = {"a pod's token opens": opens(mine)}
    for who, token in (("a pod", pod_token), ("an account", account_token)):
        status, answer = ask("GET", person % VICTIM, token)
        told[who + " as a person"] = opens(json.loads(answer)["token"]) if status == 200 else status

    repository, theirs = REGISTRY + "/v2/" + OWN, REGISTRY + "/v2/" + VICTIM
    naming_theirs = json.dumps({
        "schemaVersion": 2,
        "mediaType": MANIFEST_TYPE,
        "config": {"mediaType": "application/vnd.oci.empty.v1+json", "digest": LAYER, "size": 2},
        "layers": [{"mediaType": "application/octet-stream", "digest": LAYER, "size": 2}],
    }).encode()
    tries = {
        "own upload": ("POST", repository + "/blobs/uploads/"),
        "their manifest": ("GET", theirs + "/manifests/" + MANIFEST),
        "their layer": ("GET", theirs + "/blobs/" + LAYER),
        "whether their layer is there": ("HEAD", theirs + "/blobs/" + LAYER),
        "their tags": ("GET", theirs + "/tags/list"),
        "upload to them": ("POST", theirs + "/blobs/uploads/"),
        "delete their manifest": ("DELETE", theirs + "/manifests/" + MANIFEST),
        "all repositories": ("GET", REGISTRY + "/v2/_catalog"),
        "mount their layer": ("POST", repository + "/blobs/uploads/?from=" + VICTIM + "&mount=" + LAYER),
        "their layer by its digest": ("GET", repository + "/blobs/" + LAYER),
        "their manifest by its digest": ("GET", repository + "/manifests/" + MANIFEST),
    }
    for name, (method, url) in tries.items():
        told[name] = ask(method, url, mine)[0]
    told["a manifest that names their layer"] = ask(
        "PUT", repository + "/manifests/stolen", mine, naming_theirs, MANIFEST_TYPE)[0]
    told["their layer through that manifest"] = ask("GET", repository + "/blobs/" + LAYER, mine)[0]
    told["with the pod's own token"] = ask("GET", theirs + "/manifests/" + MANIFEST, pod_token)[0]
    told["with the account's token"] = ask("GET", theirs + "/manifests/" + MANIFEST, account_token)[0]
    print(json.dumps(told))


main()
