"""Ironic in small, on Python's HTTP and OpenSSL: looks the agent up, waits for its heartbeat, deploys, switches off.

Arguments: folder with image.raw, checksum file name. Prints one JSON object: the results of its commands.
"""
import base64, gzip, http.server, json, os, ssl, sys, tempfile, threading, urllib.request

folder, sums = sys.argv[1:3]
TOKEN = "t" * 43
beats = []
beaten = threading.Condition()


class Ironic(http.server.SimpleHTTPRequestHandler):
    broken = False

    def __init__(self, *args):
        super().__init__(*args, directory=folder)

    def log_message(self, *args):
        pass

    def do_GET(self):
        if self.path.startswith("/v1/lookup"):
            return self.reply(200, {
                "node": {"uuid": "n1", "properties": {"root_device": {"name": "disk"}}, "instance_info": {}},
                "config": {"heartbeat_timeout": 300, "agent_token": TOKEN, "agent_token_required": True}})
        if self.path == "/image.raw" and not Ironic.broken:
            # The first try breaks in the middle.
            Ironic.broken = True
            data = open(os.path.join(folder, "image.raw"), "rb").read()
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.send_header("Last-Modified", self.date_time_string(os.stat(os.path.join(folder, "image.raw")).st_mtime))
            self.end_headers()
            self.wfile.write(data[:5000000])
            self.close_connection = True
            return None
        return super().do_GET()

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.reply(202, {})
        with beaten:
            beats.append(body)
            beaten.notify_all()

    def reply(self, status, value):
        text = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)


def wait_beats(count):
    with beaten:
        assert beaten.wait_for(lambda: len(beats) >= count, 60), f"{len(beats)} heartbeats"
    return beats[-1]


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Ironic)
threading.Thread(target=server.serve_forever, daemon=True).start()
here = f"http://127.0.0.1:{server.server_port}"
print(here, flush=True)

beat = wait_beats(1)
with tempfile.NamedTemporaryFile("w", suffix=".pem") as pem:
    pem.write(beat["agent_verify_ca"])
    pem.flush()
    trust = ssl.create_default_context(cafile=pem.name)


def call(path, body=None):
    request = urllib.request.Request(
        f"{beat['callback_url']}/v1/commands/{path}&agent_token={TOKEN}",
        None if body is None else json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, context=trust, timeout=60) as answer:
        return json.load(answer)


def command(name, params):
    begun = call("?wait=false", {"name": name, "params": params})
    return call(f"{begun['id']}?wait=true") if begun["command_status"] == "RUNNING" else begun


drive = base64.b64encode(gzip.compress(open(os.path.join(folder, "config.iso"), "rb").read())).decode()
steps = command("deploy.get_deploy_steps", {"node": None, "ports": []})["command_result"]
args = {"image_info": {"id": "image.raw", "urls": [f"{here}/image.raw"], "disk_format": "raw",
                       "checksum": f"{here}/{sums}", "stream_raw_images": True}, "configdrive": drive}
write = command("deploy.execute_deploy_step", {
    "step": {"interface": "deploy", "step": "write_image", "args": args},
    "ports": [], "deploy_version": steps["hardware_manager_version"]})
wait_beats(2)
last = call("?wait=false")["commands"][-1]
command("standby.sync", {})
call("?wait=false", {"name": "standby.power_off", "params": {}})
print(json.dumps({"write": write, "last": last["id"] == write["id"], "beat": beat["callback_url"]}), flush=True)
