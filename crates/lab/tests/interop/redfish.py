"""Drives one BMC with sushy, step by step. Reads a JSON object from standard input; fails on the first surprise."""

import http.server
import json
import queue
import sys
import threading
import time
import traceback

import sushy
from sushy import auth as sushy_auth
from sushy import exceptions
from sushy.resources import settings as sushy_settings

GIB = 1 << 30
STEPS = []


def step(function):
    """In order of definition; the name is the sentence."""
    STEPS.append(function)
    return function


def until(what, check, seconds=20):
    """Waits for a state, and says which one did not come."""
    deadline = time.monotonic() + seconds
    while True:
        seen = check()
        if seen:
            return seen
        if time.monotonic() > deadline:
            raise AssertionError(f"waited in vain: {what}")
        time.sleep(0.05)


def refused(call, *kinds):
    try:
        call()
    except kinds as error:
        return error
    raise AssertionError(f"expected a refusal: {kinds}")


class Lab:
    def __init__(self, given):
        self.given = given
        self.vendor = given["vendor"]
        self.root = self.connect()
        self.system = self.root.get_system()

    def connect(self, auth=None):
        if auth is None:
            auth = sushy_auth.SessionOrBasicAuth(self.given["user"], self.given["password"])
        return sushy.Sushy(self.given["url"], auth=auth, verify=self.given["ca"],
                           server_side_retries=1, server_side_retries_delay=0)

    def power_is(self, state):
        def check():
            self.system.refresh()
            return self.system.power_state == state
        until(f"power {state}", check)

    def boot_is(self, enabled, target):
        def check():
            self.system.refresh()
            return (self.system.boot.enabled, self.system.boot.target) == (enabled, target)
        until(f"boot {enabled} {target}", check)

    def set_boot(self, target, enabled):
        """The whole triple, as Ironic sends it to the vendors that want it."""
        self.system.refresh()
        self.system.set_system_boot_options(target, enabled, sushy.BootSourceOverrideMode.UEFI)

    def off(self):
        self.system.refresh()
        if self.system.power_state != sushy.PowerState.OFF:
            self.system.reset_system(sushy.ResetType.FORCE_OFF)
        self.power_is(sushy.PowerState.OFF)

    def on(self):
        self.system.refresh()
        if self.system.power_state != sushy.PowerState.ON:
            self.system.reset_system(sushy.ResetType.ON)
        self.power_is(sushy.PowerState.ON)

    def drive(self):
        """The slot for a CD, found as Ironic finds it."""
        try:
            slots = self.system.virtual_media.get_members()
        except exceptions.MissingAttributeError:
            slots = [slot for manager in self.system.managers for slot in manager.virtual_media.get_members()]
        return next(slot for slot in slots if sushy.VirtualMediaType.CD in slot.media_types)


@step
def a_session_is_opened_used_and_closed(lab):
    assert lab.root._auth.get_session_key(), "sushy fell back to basic authentication"
    other = lab.connect()
    service = other.get_session_service()
    before = len(service.sessions.get_members())
    assert before >= 2 and service.session_timeout == 1800
    other._auth.close()
    assert len(lab.root.get_session_service().sessions.get_members()) == before - 1


@step
def basic_authentication_works_and_wrong_passwords_do_not(lab):
    basic = lab.connect(sushy_auth.BasicAuth(lab.given["user"], lab.given["password"]))
    assert basic.get_system().uuid == lab.system.uuid
    wrong = lab.connect(sushy_auth.BasicAuth(lab.given["user"], "wrong"))
    refused(wrong.get_system, exceptions.AccessError)
    wrong = sushy_auth.SessionAuth(lab.given["user"], "wrong")
    refused(lambda: lab.connect(wrong), exceptions.AccessError)


@step
def the_system_is_described(lab):
    system = lab.system
    assert system.identity and system.manufacturer and system.model and system.sku
    assert system.uuid == "00000000-0000-0000-0000-000000001234"
    assert (system.serial_number, system.bios_version != "") == ("LAB0001", True)
    assert system.memory_summary.size_gib == 8
    assert system.status.health == sushy.Health.OK
    assert system.power_state == sushy.PowerState.OFF
    assert len(system.managers) == 1 and len(system.chassis) == 1
    assert lab.root.get_manager().systems[0].uuid == system.uuid


@step
def the_hardware_is_listed(lab):
    system = lab.system
    nics = system.ethernet_interfaces.summary
    assert {mac.lower() for mac in nics} == {"52:54:00:00:00:01", "52:54:00:00:00:02"}, nics
    assert system.processors.summary.count == 4
    assert system.processors.get_members()[0].total_cores == 4
    [storage] = system.storage.get_members()
    assert storage.drives_sizes_bytes == [20 * GIB, 40 * GIB]
    assert [drive.serial_number for drive in storage.drives] == ["D1", "D2"]
    assert storage.storage_controllers[0].member_id == "0"
    assert len(storage.controllers.get_members()) == 1
    assert storage.volumes.get_members() == []
    assert system.simple_storage.disks_sizes_bytes == [20 * GIB, 40 * GIB]
    memory = system._conn.get(system.json["Memory"]["@odata.id"]).json()["Members"]
    assert system._conn.get(memory[0]["@odata.id"]).json()["CapacityMiB"] == 8192
    if lab.root.protocol_features_supported.expand_query["Levels"]:
        assert system.storage_expanded.drives_sizes_bytes == [20 * GIB, 40 * GIB]
        assert system.simple_storage_expanded.max_size_bytes == 40 * GIB


@step
def power_verbs_work(lab):
    lab.on()
    lab.system.reset_system(sushy.ResetType.FORCE_RESTART)
    lab.power_is(sushy.PowerState.ON)
    lab.system.reset_system(sushy.ResetType.NMI)
    lab.system.reset_system(sushy.ResetType.GRACEFUL_SHUTDOWN)
    lab.power_is(sushy.PowerState.OFF)
    lab.on()
    lab.system.reset_system(sushy.ResetType.GRACEFUL_RESTART)
    time_of_both = (sushy.PowerState.ON, sushy.PowerState.OFF, sushy.PowerState.POWERING_ON)
    assert lab.system.power_state in time_of_both
    lab.power_is(sushy.PowerState.ON)
    lab.off()


@step
def a_power_state_there_already_is_as_the_vendor_has_it(lab):
    lab.on()
    again = lambda: lab.system.reset_system(sushy.ResetType.ON)
    if lab.vendor == "idrac":
        assert refused(again, exceptions.HTTPError).status_code == 409
    elif lab.vendor == "ilo":
        assert refused(again, exceptions.HTTPError).status_code == 400
    else:
        again()
    lab.off()


@step
def reset_types_that_are_not_there_are_refused_with_a_list(lab):
    allowed = lab.system.get_allowed_reset_system_values()
    assert sushy.ResetType.ON in allowed and sushy.ResetType.SUSPEND not in allowed
    refused(lambda: lab.system.reset_system(sushy.ResetType.SUSPEND), exceptions.InvalidParameterValueError)
    target = lab.system._get_reset_action_element().target_uri
    error = refused(lambda: lab.system._conn.post(target, data={"ResetType": "Sideways"}), exceptions.BadRequestError)
    assert error.code.endswith(".ActionParameterValueNotInList"), error.code
    assert all(value.value in error.detail for value in allowed), error.detail
    error = refused(lambda: lab.system._conn.post(target, data={}), exceptions.BadRequestError)
    assert error.code.endswith(".ActionParameterMissing") and error.related_properties == ["#/ResetType"]


@step
def boot_devices_are_set_for_once_and_for_good(lab):
    once, always = sushy.BootSourceOverrideEnabled.ONCE, sushy.BootSourceOverrideEnabled.CONTINUOUS
    disabled = sushy.BootSourceOverrideEnabled.DISABLED
    cd = sushy.BootSource.USB_CD if lab.vendor == "supermicro" else sushy.BootSource.CD
    for target, shown in [(sushy.BootSource.PXE, sushy.BootSource.PXE), (sushy.BootSource.CD, cd),
                          (sushy.BootSource.HDD, sushy.BootSource.HDD)]:
        lab.set_boot(target, once)
        lab.boot_is(once, shown)
        lab.on()
        lab.boot_is(disabled, sushy.BootSource.NONE)
        lab.off()
        lab.set_boot(target, always)
        lab.on()
        lab.boot_is(always, shown)
        lab.off()
    lab.set_boot(sushy.BootSource.HDD, disabled)
    lab.boot_is(disabled, sushy.BootSource.NONE)
    refused(lambda: lab.set_boot(sushy.BootSource.SD_CARD, once), exceptions.InvalidParameterValueError)


@step
def http_boot_takes_an_address(lab):
    lab.system.refresh()
    lab.system.set_system_boot_options(sushy.BootSource.UEFI_HTTP, sushy.BootSourceOverrideEnabled.ONCE,
                                       sushy.BootSourceOverrideMode.UEFI, http_boot_uri="http://192.0.2.1/boot.efi")
    lab.boot_is(sushy.BootSourceOverrideEnabled.ONCE, sushy.BootSource.UEFI_HTTP)
    assert lab.system.boot.http_boot_uri == "http://192.0.2.1/boot.efi"
    lab.set_boot(sushy.BootSource.HDD, sushy.BootSourceOverrideEnabled.DISABLED)
    lab.system.refresh()
    assert lab.system.boot.http_boot_uri is None


@step
def boot_mode_changes_between_uefi_and_legacy(lab):
    for mode in [sushy.BootSourceOverrideMode.LEGACY, sushy.BootSourceOverrideMode.UEFI]:
        lab.system.refresh()
        lab.system.set_system_boot_options(mode=mode)
        lab.system.refresh()
        assert lab.system.boot.mode == mode


@step
def virtual_media_is_inserted_by_http_and_ejected(lab):
    drive, image = lab.drive(), lab.given["http_image"]
    assert not drive.inserted
    drive.insert_media(image)

    def inserted():
        drive.refresh()
        return drive.inserted
    until("inserted", inserted)
    assert (drive.image, drive.image_name, drive.write_protected) == (image, "image.iso", True)
    assert drive.connected_via == sushy.ConnectedVia.URI
    if lab.vendor in ("idrac", "ilo"):
        assert refused(lambda: drive.insert_media(image), exceptions.BadRequestError)
    drive.eject_media()
    drive.refresh()
    assert (drive.inserted, drive.image) == (False, None)
    drive.eject_media()


@step
def virtual_media_over_https_is_believed_unless_told_otherwise(lab):
    drive, image = lab.drive(), lab.given["https_image"]
    drive.set_verify_certificate(True)
    drive.refresh()
    assert drive.verify_certificate is True
    if lab.vendor == "supermicro":
        drive.insert_media(image)
        tasks = lab.root.get_task_service().tasks
        until("a failed task", lambda: (tasks.refresh() or sushy.TaskState.EXCEPTION in tasks.summary.values()))
    else:
        error = refused(lambda: drive.insert_media(image), exceptions.HTTPError)
        assert error.status_code == 502 and image in error.detail, error.detail
    drive.refresh()
    assert not drive.inserted
    drive.set_verify_certificate(False)
    drive.refresh()
    drive.insert_media(image)
    until("inserted", lambda: (drive.refresh() or drive.inserted))
    drive.eject_media()


@step
def an_image_that_is_not_there_is_refused_by_name(lab):
    drive, image = lab.drive(), lab.given["http_image"].replace("image", "missing")
    if lab.vendor != "supermicro":
        error = refused(lambda: drive.insert_media(image), exceptions.BadRequestError)
        assert image in error.detail and "404" in error.detail, error.detail
    drive.refresh()
    assert not drive.inserted


@step
def bios_attributes_wait_for_a_reset(lab):
    lab.off()
    bios = lab.system.bios
    bios.refresh()
    assert bios.attributes["MemTest"] == "Disabled"
    assert bios.update_status.status == sushy_settings.NO_UPDATES
    assert sushy.ApplyTime.ON_RESET in bios.supported_apply_times
    bios.set_attributes({"MemTest": "Enabled", "NumCores": 3}, apply_time=sushy.ApplyTime.ON_RESET)
    assert bios.pending_attributes["NumCores"] == 3
    bios.refresh()
    assert bios.attributes["MemTest"] == "Disabled"
    lab.on()
    bios.refresh()
    assert (bios.attributes["MemTest"], bios.attributes["NumCores"]) == ("Enabled", 3)
    assert bios.update_status.status == sushy_settings.UPDATE_SUCCESS
    error = refused(lambda: bios.set_attribute("Nope", 1), exceptions.BadRequestError)
    assert error.code.endswith(".PropertyUnknown"), error.code
    bios.reset_bios()
    lab.off()
    lab.on()
    bios.refresh()
    assert bios.attributes["MemTest"] == "Disabled"
    lab.off()


@step
def the_registry_of_bios_attributes_is_found(lab):
    registry = lab.system.bios.get_attribute_registry()
    entries = {entry.name: entry for entry in registry.registry_entries.attributes}
    assert entries["MemTest"].attribute_type == "Enumeration"
    assert [value["ValueName"] for value in entries["MemTest"].allowable_values] == ["Enabled", "Disabled"]
    assert entries["NumCores"].attribute_type == "Integer" and entries["NumCores"].upper_bound > 1 << 32


@step
def secure_boot_is_enabled_at_the_next_start(lab):
    lab.off()
    secure_boot = lab.system.secure_boot
    assert secure_boot.enabled is False
    secure_boot.set_enabled(True)
    secure_boot.refresh()
    assert (secure_boot.enabled, secure_boot.current_boot) == (True, sushy.SecureBootCurrentBoot.DISABLED)
    lab.on()
    secure_boot.refresh()
    assert secure_boot.current_boot == sushy.SecureBootCurrentBoot.ENABLED
    secure_boot.reset_keys(sushy.SecureBootResetKeysType.DELETE_ALL_KEYS)
    secure_boot.refresh()
    assert secure_boot.mode == sushy.SecureBootMode.SETUP
    secure_boot.reset_keys(sushy.SecureBootResetKeysType.RESET_ALL_KEYS_TO_DEFAULT)
    secure_boot.set_enabled(False)
    lab.off()


@step
def firmware_is_listed_and_updated_by_a_task(lab):
    service = lab.root.get_update_service()
    inventory = {item.identity: item for item in service.firmware_inventory.get_members()}
    assert set(inventory) == {"BIOS", "BMC"}
    before = inventory["BIOS"].version
    monitor = service.simple_update(lab.given["http_image"], targets=[inventory["BIOS"].path],
                                    transfer_protocol=sushy.UpdateTransferProtocolType.HTTP)
    monitor.wait(20)
    task = monitor.get_task()
    assert (task.task_state, task.percent_complete) == (sushy.TaskState.COMPLETED, 100)
    task.parse_messages()
    inventory["BIOS"].refresh()
    assert inventory["BIOS"].version != before
    lab.system.refresh()
    assert lab.system.bios_version == inventory["BIOS"].version
    tasks = lab.root.get_task_service().tasks
    assert tasks.summary[task.identity] == sushy.TaskState.COMPLETED
    found = lab.root.get_task_monitor(f"/redfish/v1/TaskService/TaskMonitors/{task.identity}")
    assert not found.is_processing
    monitor = service.simple_update(lab.given["http_image"].replace("image", "missing"))
    monitor.wait(20)
    assert monitor.get_task().task_state == sushy.TaskState.EXCEPTION


@step
def events_arrive_at_a_subscriber(lab):
    letters = queue.Queue()

    class Hook(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            letters.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hook)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    service = lab.root.get_event_service()
    assert service.service_enabled and service.get_event_types_for_subscription()
    subscription = service.subscriptions.create({
        "Destination": f"http://127.0.0.1:{server.server_port}/events",
        "Protocol": "Redfish",
        "Context": "lab",
        "EventTypes": ["StatusChange", "Alert"],
    })
    assert subscription.context == "lab"
    service.submit_test_event("1", "2026-01-01T00:00:00Z", "Alert", "Hello", [], "Lab.1.0.Hello", "/redfish/v1/", "OK")
    assert letters.get(timeout=10)["Events"][0]["MessageId"] == "Lab.1.0.Hello"
    lab.on()
    while True:
        letter = letters.get(timeout=10)
        assert letter["Context"] == "lab"
        if letter["Events"][0]["MessageId"].endswith(".ResourcePoweredOn"):
            break
    lab.off()
    subscription.delete()
    assert service.subscriptions.get_members() == []
    server.shutdown()


@step
def the_chassis_has_sensors_and_a_light(lab):
    chassis = lab.root.get_chassis()
    assert chassis.chassis_type == sushy.ChassisType.RACK_MOUNT
    assert chassis.thermal.temperatures[0].reading_celsius > 0
    assert chassis.thermal.fans[0].reading > 0
    assert chassis.power.power_supplies[0].power_capacity_watts == 750
    lab.system.refresh()
    lab.system.set_indicator_led(sushy.IndicatorLED.BLINKING)
    lab.system.refresh()
    assert lab.system.indicator_led == sushy.IndicatorLED.BLINKING


@step
def certificates_can_be_asked_for(lab):
    assert lab.root.get_certificate_service().identity == "CertificateService"
    assert lab.drive().certificates.get_members() == []


@step
def the_bmc_is_reset_and_found_again(lab):
    manager = lab.root.get_manager()
    assert manager.firmware_version and manager.manager_type == sushy.ManagerType.BMC
    assert len(manager.ethernet_interfaces.get_members()) == 1
    new_year = "2030-01-02T03:04:05Z"
    if lab.vendor == "fujitsu":
        # sushy sets the clock without an ETag, and this vendor wants one.
        assert refused(lambda: manager.set_datetime(new_year), exceptions.HTTPError).status_code == 412
        manager._conn.patch(manager.path, data={"DateTime": new_year}, etag=manager._get_etag())
    else:
        manager.set_datetime(new_year)
    manager.refresh()
    assert str(manager.json["DateTime"]).startswith("2030-01-02T03:04:")
    first = lab.root._auth.get_session_key()
    manager.reset_manager(sushy.ResetType.GRACEFUL_RESTART)

    def back():
        try:
            manager.refresh()
        except (exceptions.ServerSideError, exceptions.ConnectionError):
            return False
        return True
    until("the BMC is back", back)
    assert lab.root._auth.get_session_key() != first, "the sessions are gone, and sushy has logged in again"


def main():
    lab = Lab(json.load(sys.stdin))
    for function in STEPS:
        name = function.__name__.replace("_", " ")
        try:
            function(lab)
        except Exception:
            print(f"FAILED {name}", flush=True)
            traceback.print_exc()
            sys.exit(1)
        print(f"ok {name}", flush=True)


main()
