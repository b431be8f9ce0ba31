"""openstacksdk leads nodes, all at once, as the plan on the command line says; prints how each of them ended."""

import json
import subprocess
import sys
import threading
import time

import keystoneauth1.exceptions
import openstack


def main(plan):
    cloud = openstack.connect(auth_type="none", endpoint=plan["api"], baremetal_endpoint_override=plan["api"])
    ends = {}

    def lead(work):
        try:
            ends[work["name"]] = Node(cloud.baremetal, plan, work).lead()
        except Exception as error:  # Told to whoever reads the answer.
            ends[work["name"]] = {"state": "lost", "last_error": f"{type(error).__name__}: {error}"}

    threads = [threading.Thread(target=lead, args=(work,)) for work in plan["nodes"]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(json.dumps(ends))


class Node:
    def __init__(self, metal, plan, work):
        self.metal, self.plan, self.work = metal, plan, work

    def lead(self):
        name = self.work["name"]
        if "create" in self.work:
            node = self.metal.create_node(name=name, provision_state="enroll", **self.work["create"])
            self.metal.create_port(address=self.work["mac"], node_id=node.id)
        states = []
        for verb in self.work["verbs"]:
            node = self.recovered()
            if verb == "active" and node.provision_state == "active":
                continue
            if verb == "deleted" and node.provision_state not in ("active", "deploy failed", "error"):
                continue
            more = {}
            if verb == "active":
                node = self.patiently(self.metal.update_node, node, instance_info=self.plan["image"])
                more["config_drive"] = {"meta_data": {"name": name}, "user_data": "{}"}
            self.ask(node, verb, more)
            node = self.rest(verb)
            states.append(node.provision_state)
            if node.provision_state.endswith("failed"):
                break
        inventory = None
        if "inspect" in self.work["verbs"]:
            inventory = self.metal.get_node_inventory(node)["inventory"]
        return {"state": node.provision_state, "last_error": node.last_error, "states": states,
                "power": node.power_state, "instance_info": node.instance_info, "inventory": inventory,
                "waiting": (node.driver_internal_info or {}).get("waiting")}

    def recovered(self):
        """The node once its BMC is trusted: one that was silent too long puts it into maintenance until it answers."""
        deadline = time.monotonic() + self.plan["within"]
        while time.monotonic() < deadline:
            node = self.patiently(self.metal.get_node, self.work["name"])
            if not node.is_maintenance:
                return node
            time.sleep(0.5)
        raise AssertionError(f"still in maintenance: {node.maintenance_reason}")

    def ask(self, node, verb, more):
        """A service killed after it took the verb and before it said so has it under way when it is asked again."""
        try:
            self.patiently(self.metal.set_node_provision_state, node, verb, **more)
        except openstack.exceptions.BadRequestException:
            now = self.patiently(self.metal.get_node, self.work["name"])
            if now.target_provision_state is None and now.provision_state not in RESTS[verb]:
                raise

    def patiently(self, call, *args, **more):
        """A node that is just being looked at is asked again, and so is a service that is being started."""
        deadline = time.monotonic() + self.plan["within"]
        while True:
            try:
                return call(*args, **more)
            except (openstack.exceptions.ConflictException, keystoneauth1.exceptions.ConnectFailure):
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.5)

    def rest(self, verb):
        """The node once it has come to rest; a command may be run on the way."""
        during = self.work.get("during") if verb == "active" else None
        deadline = time.monotonic() + self.plan["within"]
        while time.monotonic() < deadline:
            node = self.patiently(self.metal.get_node, self.work["name"])
            if during and node.provision_state == "wait call-back":
                subprocess.run(during, check=True, stdout=subprocess.DEVNULL)
                during = None
            ended = node.provision_state in RESTS[verb] or node.provision_state.endswith("failed")
            if ended and node.reservation is None and node.target_provision_state in (None, node.provision_state):
                return node
            if ended and node.provision_state.endswith("failed") and node.reservation is None:
                return node
            time.sleep(0.2 if during else 0.5)
        raise AssertionError(f"{verb}: stuck in {node.provision_state}: {node.last_error} {node.driver_internal_info}")


RESTS = {"manage": ["manageable"], "inspect": ["manageable"], "provide": ["available"], "active": ["active"],
         "deleted": ["available"]}

main(json.loads(sys.argv[1]))
