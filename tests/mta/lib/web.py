# SPDX-License-Identifier: ISC
"""What Postern tells by HTTP."""
import http.client
import json
import re

PORT = 9471
SAMPLE = re.compile(r'(\w+)(?:\{(.*)\})? (\S+)$')
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


def listening(*addresses):
    """A change of the shipped configuration: listen.metrics at these addresses."""
    listed = ", ".join(f'"{address}"' for address in addresses or (f"inet:127.0.0.1:{PORT}",))

    def edit(text):
        shipped = f'#metrics = "inet:127.0.0.1:{PORT}";'
        assert text.count(shipped) == 1
        return text.replace(shipped, f"metrics = [ {listed} ];")
    return edit


class Answer:
    def __init__(self, response):
        self.code, self.body = response.status, response.read()
        self.headers = dict(response.getheaders())

    def text(self):
        return self.body.decode()


def get(path, method="GET", host=None, body=None, port=PORT):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request(method, path, body, {"Host": host} if host else {})
        return Answer(connection.getresponse())
    finally:
        connection.close()


def api(name):
    return json.loads(get(f"/api/{name}").text())


class Metrics:
    """One scrape: metrics[name] or metrics[name, label, value, ...]."""

    def __init__(self, text):
        self.types = dict(re.findall(r"^# TYPE (\w+) (\w+)$", text, re.M))
        self.helps = set(re.findall(r"^# HELP (\w+) \S", text, re.M))
        self.samples = {}
        for line in text.splitlines():
            if line.startswith("#"):
                continue
            name, labels, value = SAMPLE.match(line).groups()
            pairs = tuple(sorted((label, re.sub(r"\\(.)", r"\1", text))
                                 for label, text in LABEL.findall(labels or "")))
            assert (name, pairs) not in self.samples, line
            self.samples[name, pairs] = float(value)

    def __getitem__(self, key):
        name, *labels = key if isinstance(key, tuple) else (key,)
        return self.samples.get((name, tuple(sorted(zip(labels[::2], labels[1::2])))))


def metrics():
    return Metrics(get("/metrics").text())
