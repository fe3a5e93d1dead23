"""The tests of a tool, as its authors would write them with the fixtures of cellshift's wheel."""

import json
import subprocess
import sys
import urllib.request

import pytest


@pytest.fixture
def ask(cellshift):
    """Sends a request of the cloud's user."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    token = cellshift.token("cellshift")

    def ask(method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        headers = {"X-Auth-Token": token, "Content-Type": "application/json", "OpenStack-API-Version": "compute 2.90"}
        request = urllib.request.Request(cellshift.url + path, data, headers, method=method)
        with opener.open(request, timeout=60) as answer:
            return json.load(answer)

    return ask


@pytest.mark.parametrize("time", ["first", "second"])
def test_a_crowd_of_servers_is_made_in_an_empty_cloud(ask, time):
    assert ask("GET", "/compute/v2.1/servers") == {"servers": []}
    image = ask("GET", "/image/v2/images")["images"][0]["id"]
    network = next(each["id"] for each in ask("GET", "/network/v2.0/networks")["networks"] if each["name"] == "private")
    for number in range(30):
        server = {"name": f"server-{number}", "flavorRef": "m1.tiny", "imageRef": image, "networks": [{"uuid": network}]}
        ask("POST", "/compute/v2.1/servers", {"server": server})
    assert len(ask("GET", "/compute/v2.1/servers")["servers"]) == 30


def test_the_cloud_has_the_configuration_of_the_tests(cellshift):
    command = [f"{sys.prefix}/bin/cellshift", "cells", "--data-dir", cellshift.clouds_yaml.parent]
    assert "cell3" in subprocess.run(command, capture_output=True, text=True, check=True).stdout
