"""openstacksdk against the service: one node's life, and what surrounds it."""

import sys
import time

import openstack
from openstack import exceptions


def main(endpoint):
    cloud = openstack.connect(auth_type="none", endpoint=endpoint, baremetal_endpoint_override=endpoint)
    metal = cloud.baremetal

    assert {"fake-hardware", "redfish", "idrac", "ipmi"} <= {driver.name for driver in metal.drivers()}
    assert metal.get_driver("fake-hardware").default_deploy_interface == "fake"
    assert [c.hostname for c in metal.conductors()] == ["plinth"]

    node = metal.create_node(driver="fake-hardware", name="sdk-0", resource_class="gold",
                             driver_info={"redfish_password": "hunter2"}, provision_state="enroll")
    assert node.provision_state == "enroll"
    assert node.driver_info["redfish_password"] == "******"
    assert metal.get_node("sdk-0").id == node.id
    assert metal.find_node("nobody") is None

    port = metal.create_port(address="52:54:00:00:00:02", node_id=node.id)
    assert port.address == "52:54:00:00:00:02" and port.is_pxe_enabled
    port = metal.update_port(port, is_pxe_enabled=False)
    assert metal.get_port(port.id).is_pxe_enabled is False
    group = metal.create_port_group(name="bond0", node_id=node.id, address="52:54:00:00:00:03")
    assert [g.id for g in metal.port_groups(node=node.id)] == [group.id]
    metal.delete_port_group(group)

    node = metal.set_node_provision_state(node, "manage", wait=True, timeout=30)
    assert node.provision_state == "manageable"
    node = metal.update_node(node, extra={"rack": 7}, description="first")
    assert metal.get_node(node.id).extra == {"rack": 7}
    metal.add_node_trait(node, "CUSTOM_GPU")
    metal.set_node_traits(node, ["CUSTOM_GPU", "HW_CPU_X86_VMX"])
    metal.remove_node_trait(node, "HW_CPU_X86_VMX")
    assert metal.get_node(node.id).traits == ["CUSTOM_GPU"]

    node = metal.set_node_provision_state(node, "inspect", wait=True, timeout=30)
    inventory = metal.get_node_inventory(node)
    assert inventory["inventory"]["cpu"]["architecture"] == "x86_64"
    node = metal.set_node_provision_state(
        node, "clean", clean_steps=[{"interface": "bios", "step": "factory_reset"}], wait=True, timeout=30)
    assert node.provision_state == "manageable"
    node = metal.set_node_provision_state(node, "provide", wait=True, timeout=30)
    assert node.provision_state == "available"

    allocation = metal.create_allocation(resource_class="gold", name="a0", traits=["CUSTOM_GPU"])
    allocation = metal.wait_for_allocation(allocation, timeout=30)
    assert allocation.node_id == node.id and allocation.state == "active"
    none = metal.create_allocation(resource_class="silver")
    refused(exceptions.ResourceFailure, metal.wait_for_allocation, none, timeout=30)
    metal.delete_allocation(none)

    assert metal.validate_node(node)["deploy"].result
    node = metal.set_node_provision_state(
        metal.get_node(node.id), "active", config_drive={"meta_data": {"name": "sdk-0"}, "user_data": "#!"}, wait=True, timeout=30)
    assert node.provision_state == "active" and node.power_state == "power on"
    metal.set_node_power_state(node, "rebooting", wait=True, timeout=30)
    metal.set_node_power_state(node, "power off", wait=True, timeout=30)
    metal.set_node_boot_device(node, "cdrom", persistent=False)
    assert metal.get_node_boot_device(node)["boot_device"] == "cdrom"
    assert "pxe" in metal.get_node_supported_boot_devices(node)["supported_boot_devices"]
    metal.set_node_boot_mode(node, "bios")
    node = settled(metal, node)
    metal.set_node_secure_boot(node, True)
    node = settled(metal, node)
    assert node.boot_mode == "bios" and node.is_secure_boot
    metal.attach_vif_to_node(node, "vif-1")
    assert metal.list_node_vifs(node) == ["vif-1"]
    metal.detach_vif_from_node(node, "vif-1")
    metal.set_node_maintenance(node, reason="moving")
    assert metal.get_node(node.id).maintenance_reason == "moving"
    metal.unset_node_maintenance(node)
    metal.inject_nmi_to_node(node)
    assert metal.list_node_firmware(node)["firmware"] == []

    refused(exceptions.BadRequestException, metal.set_node_provision_state, node, "provide")
    node = metal.set_node_provision_state(node, "deleted", wait=True, timeout=30)
    node = metal.get_node(node.id)
    assert node.provision_state == "available" and node.instance_id is None

    for number in range(25):
        metal.create_node(driver="fake-hardware", name=f"page-{number}")
    assert len(list(metal.nodes(limit=10))) == 26
    assert len(list(metal.nodes(details=True, provision_state="available"))) == 1
    assert len(list(metal.nodes(resource_class="gold", fields=["uuid", "name"]))) == 1

    metal.delete_port(port)
    metal.delete_node(node)
    refused(exceptions.NotFoundException, metal.get_node, node.id)
    print("done")


def settled(metal, node):
    """The node once nobody works on it."""
    for _ in range(300):
        node = metal.get_node(node.id)
        if node.reservation is None:
            return node
        time.sleep(0.1)
    raise AssertionError(f"{node.id} is locked for good")


def refused(kind, call, *args, **kwargs):
    try:
        call(*args, **kwargs)
    except kind:
        return
    raise AssertionError(f"{call} with {args} {kwargs} was not refused")


main(sys.argv[1])
