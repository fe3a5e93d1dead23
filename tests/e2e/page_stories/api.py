"""The service's routes with a token, for what the page does not do."""

import json
import re
import urllib.error
import urllib.request

from cloud import Failed

NO_PROXY = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Api:
    def __init__(self, cloud, user, password, project):
        self.root = f"http://127.0.0.1:{cloud.port}"
        domain = {"id": "default"}
        identity = {"methods": ["password"], "password": {"user": {"name": user, "domain": domain, "password": password}}}
        body = {"auth": {"identity": identity, "scope": {"project": {"name": project, "domain": domain}}}}
        self.token = ""
        self.token = self.send("POST", "/identity/v3/auth/tokens", body)[1]["X-Subject-Token"]

    def send(self, method, path, body=None):
        headers = {"X-Auth-Token": self.token, "OpenStack-API-Version": "compute 2.90", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.root + path, data, headers, method=method)
        try:
            with NO_PROXY.open(request, timeout=30) as answer:
                text = answer.read()
                return (json.loads(text) if text else None), answer.headers
        except urllib.error.HTTPError as error:
            raise Failed(f"{method} {path} answers {error.code}: {error.read().decode()}") from error

    def get(self, path):
        return self.send("GET", path)[0]

    def post(self, path, body):
        return self.send("POST", path, body)[0]

    def server(self, uuid):
        return self.get(f"/compute/v2.1/servers/{uuid}")["server"]

    def act(self, uuid, action, body=None):
        self.post(f"/compute/v2.1/servers/{uuid}/action", {action: body})

    def newest(self, uuid):
        """The server's newest operation."""
        return self.get(f"/ops/v1/migrations?server={uuid}&limit=1")["migrations"][0]

    def make_server(self, name, group=None):
        flavors = {flavor["name"]: flavor["id"] for flavor in self.get("/compute/v2.1/flavors")["flavors"]}
        image = self.get("/image/v2/images")["images"][0]["id"]
        network = next(one["id"] for one in self.get("/network/v2.0/networks")["networks"] if one["name"] == "private")
        body = {"name": name, "flavorRef": flavors["gen1.small"], "imageRef": image, "networks": [{"uuid": network}]}
        hints = {"os:scheduler_hints": {"group": group}} if group else {}
        return self.post("/compute/v2.1/servers", {"server": body, **hints})["server"]["id"], flavors


def passwords(cloud):
    """The passwords of demo and of admin."""
    return re.findall(r"password: (\S+)", (cloud.data / "clouds.yaml").read_text())
