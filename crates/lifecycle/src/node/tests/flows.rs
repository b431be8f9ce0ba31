use std::time::Duration;

use super::world::{AGENT, World, asked, direct, drivers, fake};
use crate::node::{
    AgentSource, BootBy, DeployBy, Fault, Heartbeat, InspectBy, Interface, Outcome, Power, Request,
    Settings, State, Step, StepSpec, Verb, Work, next,
};

fn managed(mut world: World) -> World {
    world.ask(Verb::Manage).settle();
    assert_eq!(world.view.state, State::Manageable);
    world.log.clear();
    world.states = vec![State::Manageable];
    world
}

fn fast_track() -> Settings {
    Settings {
        fast_track: true,
        ..Settings::default()
    }
}

fn available(world: World) -> World {
    let mut world = managed(world);
    world.ask(Verb::Provide).settle();
    assert_eq!(world.view.state, State::Available);
    world.log.clear();
    world.states = vec![State::Available];
    world
}

fn active(world: World) -> World {
    let mut world = available(world);
    world.ask(Verb::Active).settle();
    assert_eq!(world.view.state, State::Active);
    world.log.clear();
    world.states = vec![State::Active];
    world
}

fn steps(steps: Vec<StepSpec>) -> Request {
    Request {
        steps,
        disable_ramdisk: false,
    }
}

#[test]
fn a_new_node_is_verified_and_becomes_manageable() {
    let mut world = World::new(direct(), Settings::default());
    world.ask(Verb::Manage);
    assert_eq!(world.view.target, Some(State::Manageable));
    assert_eq!(world.settle(), State::Manageable);
    assert_eq!(world.view.target, None);
    assert_eq!(
        world.log,
        [
            "checking the node's settings for verify",
            "reading the power state",
            "running the verify steps",
            "reading the hardware's facts"
        ]
    );
}

#[test]
fn a_bmc_that_does_not_answer_is_tried_again_and_then_the_reason_is_kept() {
    let mut world = World::new(direct(), Settings::default());
    world.breaks = Some(("power state".into(), 2, true));
    assert_eq!(world.ask(Verb::Manage).settle(), State::Manageable);

    let mut world = World::new(direct(), Settings::default());
    world.breaks = Some(("power state".into(), 3, true));
    assert_eq!(world.ask(Verb::Manage).settle(), State::Enroll);
    assert_eq!(
        world.view.last_error.as_deref(),
        Some("reading the power state failed 3 times; the last time: no answer")
    );
    world.breaks = None;
    assert_eq!(world.ask(Verb::Manage).settle(), State::Manageable);
    assert_eq!(world.view.last_error, None);
}

#[test]
fn inspection_by_the_agent_boots_it_and_waits_for_what_it_found() {
    let mut world = managed(World::new(direct(), Settings::default()));
    assert_eq!(world.ask(Verb::Inspect).settle(), State::Manageable);
    assert_eq!(
        world.trail(),
        "manageable > inspecting > inspect wait > inspecting > manageable"
    );
    assert_eq!(
        world.log,
        [
            "forgetting the agent",
            "power off",
            "preparing to boot the agent for inspection by virtual media",
            "setting the boot device to cdrom",
            "power on",
            "recording the inventory",
            "power off",
            "removing what was prepared for boot by virtual media",
        ]
    );
}

#[test]
fn inspection_through_the_bmc_boots_nothing() {
    let mut world = managed(World::new(
        drivers(DeployBy::Direct, InspectBy::OutOfBand, BootBy::Pxe),
        Settings::default(),
    ));
    assert_eq!(world.ask(Verb::Inspect).settle(), State::Manageable);
    assert_eq!(world.log, ["inspection through the BMC"]);
}

#[test]
fn a_host_that_never_calls_fails_with_how_far_it_came() {
    let mut world = managed(World::new(direct(), Settings::default()));
    world.agent_calls = false;
    world.ask(Verb::Inspect);
    while world.view.state != State::InspectWait {
        world.once();
    }
    world.view.boot_trace = Some("fetched the kernel".into());
    assert_eq!(world.settle(), State::InspectFailed);
    let error = world.view.last_error.clone().unwrap();
    assert!(
        error.contains("\"inspect wait\"") && error.contains("last seen: fetched the kernel"),
        "{error}"
    );
    assert_eq!(world.view.power, Some(Power::Off), "it is put away");
    assert_eq!(world.ask(Verb::Manage).view.state, State::Manageable);
}

#[test]
fn a_silent_host_is_booted_again_before_the_wait_runs_out() {
    let mut world = managed(World::new(direct(), Settings::default()));
    world.agent_calls = false;
    world.timers.boot_retry = Duration::from_mins(10);
    assert_eq!(world.ask(Verb::Provide).settle(), State::CleanFailed);
    let again: Vec<&String> = world
        .log
        .iter()
        .filter(|line| line.contains("again"))
        .collect();
    assert_eq!(
        again,
        [
            "booting the agent again (attempt 1)",
            "booting the agent again (attempt 2)"
        ]
    );
    assert!(!world.view.maintenance, "no step was running");
}

#[test]
fn cleaning_runs_what_has_a_priority_and_ends_available() {
    let mut world = managed(World::new(direct(), Settings::default()));
    assert_eq!(world.ask(Verb::Provide).settle(), State::Available);
    assert!(
        world
            .log
            .contains(&"starting step deploy.erase_devices_metadata".to_string())
    );
    assert!(
        !world
            .log
            .iter()
            .any(|line| line.ends_with("deploy.erase_devices"))
    );
    assert_eq!(world.view.power, Some(Power::Off));
}

#[test]
fn cleaning_that_is_off_ends_at_once_and_a_retired_node_ends_manageable() {
    let off = Settings {
        automated_clean: false,
        ..Settings::default()
    };
    let mut world = managed(World::new(direct(), off));
    assert_eq!(world.ask(Verb::Provide).settle(), State::Available);
    assert!(world.log.is_empty());

    let retired = Settings {
        retired: true,
        ..Settings::default()
    };
    let mut world = managed(World::new(direct(), retired));
    assert_eq!(world.ask(Verb::Provide).settle(), State::Manageable);
}

#[test]
fn cleaning_by_hand_runs_exactly_what_was_asked() {
    let mut world = managed(World::new(direct(), Settings::default()));
    let request = steps(vec![
        asked(Interface::Raid, "create_configuration"),
        asked(Interface::Deploy, "erase_devices"),
    ]);
    assert_eq!(
        world.ask_with(Verb::Clean, request).settle(),
        State::Manageable
    );
    let lines: Vec<&String> = world
        .log
        .iter()
        .filter(|line| line.contains("step "))
        .collect();
    assert_eq!(
        lines,
        [
            "step raid.create_configuration",
            "starting step deploy.erase_devices",
            "asking after step deploy.erase_devices"
        ]
    );
    assert_eq!(
        world.log.iter().filter(|line| *line == "power on").count(),
        2,
        "the RAID step asked for a reboot"
    );
}

#[test]
fn cleaning_by_hand_without_the_agent_boots_nothing() {
    let mut world = managed(World::new(direct(), Settings::default()));
    let mut reset = asked(Interface::Bios, "factory_reset");
    reset.requires_ramdisk = false;
    reset.by = crate::node::Runner::Service;
    assert_eq!(
        world.ask_with(Verb::Clean, steps(vec![reset])).settle(),
        State::Manageable
    );
    assert_eq!(world.log, ["step bios.factory_reset"]);
}

#[test]
fn a_step_nobody_knows_is_refused_with_those_that_exist() {
    let mut world = managed(World::new(direct(), Settings::default()));
    assert_eq!(
        world
            .ask_with(Verb::Clean, steps(vec![asked(Interface::Deploy, "polish")]))
            .settle(),
        State::CleanFailed
    );
    let error = world.view.last_error.unwrap();
    assert!(
        error.contains("deploy.polish") && error.contains("deploy.erase_devices_metadata"),
        "{error}"
    );
}

#[test]
fn a_step_that_fails_leaves_the_node_on_and_in_maintenance() {
    let mut world = managed(World::new(direct(), Settings::default()));
    world.breaks = Some(("asking after".into(), 1, false));
    assert_eq!(world.ask(Verb::Provide).settle(), State::CleanFailed);
    assert_eq!(
        world.view.last_error.as_deref(),
        Some("step deploy.erase_devices_metadata failed: no answer")
    );
    assert_eq!(
        (world.view.maintenance, world.view.fault),
        (true, Some(Fault::Clean))
    );
    assert_eq!(world.view.power, Some(Power::On));
    assert_eq!(
        world.view.target,
        Some(State::Available),
        "kept, to show what was wanted"
    );
    world.view.maintenance = false;
    assert_eq!(world.ask(Verb::Manage).view.state, State::Manageable);
}

#[test]
fn deployment_writes_the_image_and_boots_it_from_disk() {
    let mut world = available(World::new(direct(), Settings::default()));
    world.ask(Verb::Active);
    assert_eq!(world.view.target, Some(State::Active));
    assert_eq!(world.settle(), State::Active);
    assert_eq!(
        world.trail(),
        "available > deploying > wait call-back > deploying > wait call-back > deploying > active"
    );
    assert_eq!(
        world.log[2..],
        [
            "forgetting the agent",
            "power off",
            "preparing to boot the agent by virtual media",
            "setting the boot device to cdrom",
            "power on",
            "asking for the deploy steps",
            "starting to write the image",
            "asking after step deploy.write_image",
            "making the disk bootable",
            "powering off through the agent",
            "removing what was prepared for boot by virtual media",
            "setting the boot device to disk",
            "forgetting the agent",
            "power on",
        ]
    );
    assert_eq!(world.view.power, Some(Power::On));
}

#[test]
fn a_clients_deploy_step_takes_its_place_by_priority_and_zero_switches_one_off() {
    let mut world = available(World::new(direct(), Settings::default()));
    let mut erase = asked(Interface::Deploy, "erase_devices_metadata");
    erase.priority = 90;
    let mut write = asked(Interface::Deploy, "write_image");
    write.priority = 0;
    assert_eq!(
        world
            .ask_with(Verb::Active, steps(vec![erase, write]))
            .settle(),
        State::Active
    );
    assert!(
        world
            .log
            .contains(&"starting step deploy.erase_devices_metadata".to_string())
    );
    assert!(
        !world
            .log
            .contains(&"starting to write the image".to_string())
    );
}

#[test]
fn a_live_system_needs_no_agent() {
    let mut world = available(World::new(
        drivers(
            DeployBy::Ramdisk,
            InspectBy::OutOfBand,
            BootBy::VirtualMedia,
        ),
        Settings::default(),
    ));
    assert_eq!(world.ask(Verb::Active).settle(), State::Active);
    assert_eq!(world.trail(), "available > deploying > active");
}

#[test]
fn a_deployment_that_fails_is_put_away_and_can_be_tried_again_or_deleted() {
    for way_out in [Verb::Active, Verb::Rebuild, Verb::Deleted] {
        let mut world = available(World::new(direct(), Settings::default()));
        world.breaks = Some(("asking after".into(), 1, false));
        assert_eq!(world.ask(Verb::Active).settle(), State::DeployFailed);
        let put_away = [
            "collecting the agent's logs",
            "power off",
            "removing what was prepared for boot by virtual media",
        ];
        assert_eq!(world.log[world.log.len() - 3..], put_away);
        let end = world.ask(way_out).settle();
        assert_eq!(
            end,
            if way_out == Verb::Deleted {
                State::Available
            } else {
                State::Active
            }
        );
    }
}

#[test]
fn trouble_while_putting_away_is_told_and_does_not_stop_the_rest() {
    let mut world = available(World::new(direct(), Settings::default()));
    world.agent_calls = false;
    world.ask(Verb::Active);
    while world.view.state != State::DeployFailed {
        world.once();
    }
    world.breaks = Some(("power off".into(), 1, true));
    assert_eq!(world.settle(), State::DeployFailed);
    assert!(
        world
            .view
            .last_error
            .unwrap()
            .ends_with("; then power off failed: no answer")
    );
    assert_eq!(
        world.log.last().unwrap(),
        "removing what was prepared for boot by virtual media"
    );
}

#[test]
fn an_undeployed_node_is_cleaned_and_available() {
    let mut world = active(World::new(direct(), Settings::default()));
    assert_eq!(world.ask(Verb::Deleted).settle(), State::Available);
    assert_eq!(
        world.trail(),
        "active > deleting > cleaning > clean wait > cleaning > clean wait > cleaning > available"
    );
    assert_eq!(
        world.log[..4],
        [
            "power off",
            "removing what was prepared for boot by virtual media",
            "forgetting the agent",
            "forgetting the instance"
        ]
    );
}

#[test]
fn a_tear_down_that_fails_ends_in_error_and_can_be_asked_for_again() {
    let mut world = active(World::new(direct(), Settings::default()));
    world.breaks = Some(("power off".into(), 3, true));
    assert_eq!(world.ask(Verb::Undeploy).settle(), State::Error);
    assert_eq!(world.ask(Verb::Deleted).settle(), State::Available);
}

#[test]
fn adoption_touches_nothing() {
    let mut world = managed(World::new(direct(), Settings::default()));
    assert_eq!(world.ask(Verb::Adopt).settle(), State::Active);
    assert_eq!(
        world.log,
        [
            "checking the node's settings for adopt",
            "reading the power state"
        ]
    );
}

#[test]
fn an_agent_that_is_up_is_used_as_it_is() {
    let mut world = managed(World::new(direct(), fast_track()));
    world.ask(Verb::Inspect).settle();
    world.log.clear();
    world.view.heard(AGENT, world.now);
    world.ask(Verb::Provide);
    assert_eq!(world.view.operation.agent, AgentSource::Running);
    assert_eq!(world.settle(), State::Available);
    world.view.heard(AGENT, world.now);
    assert_eq!(world.ask(Verb::Active).settle(), State::Active);
    let boots: Vec<&String> = world
        .log
        .iter()
        .filter(|line| line.starts_with("power") && !line.contains("agent"))
        .collect();
    assert_eq!(boots, ["power on"], "only the installed system was booted");
}

#[test]
fn whoever_is_quicker_than_the_agents_first_call_waits_for_it() {
    let mut world = managed(World::new(direct(), fast_track()));
    world.ask(Verb::Inspect).settle();
    world.log.clear();
    world.view.agent = None;
    world.ask(Verb::Provide);
    assert_eq!(world.view.operation.agent, AgentSource::Due);
    assert_eq!(world.settle(), State::Available);
    let boots = world.log.iter().filter(|line| line.starts_with("power"));
    assert_eq!(boots.count(), 0, "{:?}", world.log);

    // It never calls: one is booted.
    let mut world = managed(World::new(direct(), fast_track()));
    world.ask(Verb::Inspect).settle();
    world.view.agent = None;
    world.ask(Verb::Provide);
    world.once();
    assert_eq!(world.view.state, State::CleanWait);
    world.now += Duration::from_secs(31);
    world.once();
    assert_eq!(world.view.operation.agent, AgentSource::Fresh);
    assert_eq!(world.settle(), State::Available);

    let mut world = managed(World::new(direct(), fast_track()));
    world.ask(Verb::Inspect).settle();
    world.view.agent = None;
    world.now += Duration::from_secs(301);
    world.ask(Verb::Provide);
    assert_eq!(world.view.operation.agent, AgentSource::Fresh);
}

#[test]
fn an_agent_that_fell_silent_is_booted_afresh() {
    let mut world = managed(World::new(direct(), fast_track()));
    world.ask(Verb::Inspect).settle();
    world.view.heard(AGENT, world.now);
    world.now += Duration::from_secs(301);
    world.ask(Verb::Provide);
    assert_eq!(world.view.operation.agent, AgentSource::Fresh);
}

#[test]
fn aborting_a_step_that_can_be_cut_short_fails_at_once() {
    let mut world = managed(World::new(direct(), Settings::default()));
    world.ask(Verb::Provide);
    while world.view.running_step().is_none() || world.view.state != State::CleanWait {
        world.once();
    }
    world.ask(Verb::Abort);
    assert_eq!(world.view.state, State::CleanFailed);
    assert!(!world.view.maintenance);
    assert!(world.view.last_error.as_ref().unwrap().contains("aborted"));
    assert_eq!(world.settle(), State::CleanFailed);
    assert_eq!(world.view.power, Some(Power::Off));
}

#[test]
fn aborting_a_step_that_cannot_be_cut_short_is_honoured_after_it() {
    let mut world = available(World::new(direct(), Settings::default()));
    world.ask(Verb::Active);
    while world.view.running_step().is_none() || world.view.state != State::WaitCallBack {
        world.once();
    }
    world.ask(Verb::Abort);
    assert_eq!(world.view.state, State::WaitCallBack);
    assert_eq!(world.settle(), State::DeployFailed);
    assert!(
        world
            .view
            .last_error
            .unwrap()
            .contains("aborted by request"),
        "remembered"
    );
}

#[test]
fn a_held_list_goes_on_when_it_is_let_go() {
    let mut world = managed(World::new(direct(), Settings::default()));
    let list = vec![
        asked(Interface::Power, "hold"),
        asked(Interface::Deploy, "erase_devices"),
    ];
    assert_eq!(
        world.ask_with(Verb::Clean, steps(list)).settle(),
        State::CleanHold
    );
    assert_eq!(world.ask(Verb::Unhold).settle(), State::Manageable);
    assert!(
        world
            .log
            .contains(&"starting step deploy.erase_devices".to_string())
    );
}

#[test]
fn a_step_in_the_background_is_looked_at_until_it_ends_or_its_time_is_up() {
    let mut world = managed(World::new(direct(), Settings::default()));
    let mut update = asked(Interface::Firmware, "update");
    update.requires_ramdisk = false;
    update.by = crate::node::Runner::Service;
    world.ask_with(Verb::Clean, steps(vec![update.clone()]));
    let timers = world.timers.clone();
    for _ in 0..3 {
        let Step::Do(work) = next(&world.view, &timers, world.now) else {
            panic!()
        };
        world
            .view
            .record(&work, Outcome::Pending, &timers, world.now)
            .unwrap();
        let Step::Wait { until, .. } = next(&world.view, &timers, world.now) else {
            panic!()
        };
        world.now = until;
    }
    assert_eq!(
        next(&world.view, &timers, world.now),
        Step::Do(Work::CheckStep(update))
    );
    world.now += timers.step;
    let Step::Fail { problem } = next(&world.view, &timers, world.now) else {
        panic!()
    };
    assert_eq!(
        problem.to_string(),
        "step firmware.update did not end within 7200 s"
    );
}

#[test]
fn steps_that_changed_under_us_are_fetched_again() {
    let mut world = managed(World::new(direct(), Settings::default()));
    world.ask(Verb::Provide);
    while world.view.running_step().is_none() || world.view.state != State::CleanWait {
        world.once();
    }
    let timers = world.timers.clone();
    let step = world.view.running_step().unwrap();
    world
        .view
        .record(
            &Work::CheckStep(step),
            Outcome::Outdated,
            &timers,
            world.now,
        )
        .unwrap();
    world.log.clear();
    assert_eq!(world.settle(), State::Available);
    assert_eq!(world.log[0], "asking for the clean steps");
}

#[test]
fn a_node_of_fake_hardware_walks_the_whole_way_without_an_agent() {
    let mut world = World::new(fake(), Settings::default());
    world.agent_calls = false;
    for (verb, end) in [
        (Verb::Manage, State::Manageable),
        (Verb::Inspect, State::Manageable),
        (Verb::Provide, State::Available),
        (Verb::Active, State::Active),
        (Verb::Rescue, State::Rescue),
        (Verb::Unrescue, State::Active),
        (Verb::Deleted, State::Available),
    ] {
        assert_eq!(world.ask(verb).settle(), end);
    }
    assert!(!world.log.iter().any(|line| line.starts_with("power")));
}

#[test]
fn rescue_waits_for_the_agent_and_unrescue_goes_back_to_the_disk() {
    let mut world = active(World::new(direct(), Settings::default()));
    assert_eq!(world.ask(Verb::Rescue).settle(), State::Rescue);
    assert_eq!(
        world.trail(),
        "active > rescuing > rescue wait > rescuing > rescue"
    );
    assert_eq!(world.ask(Verb::Unrescue).settle(), State::Active);
    assert_eq!(world.log.last().unwrap(), "power on");
}

#[test]
fn service_comes_back_to_the_installed_system_and_abort_leaves_a_failure() {
    let mut world = active(World::new(direct(), Settings::default()));
    assert_eq!(
        world
            .ask_with(
                Verb::Service,
                steps(vec![asked(Interface::Deploy, "erase_devices")])
            )
            .settle(),
        State::Active
    );
    world.breaks = Some(("asking after".into(), 1, false));
    assert_eq!(
        world
            .ask_with(
                Verb::Service,
                steps(vec![asked(Interface::Deploy, "erase_devices")])
            )
            .settle(),
        State::ServiceFailed
    );
    assert_eq!(world.view.fault, Some(Fault::Service));
    assert_eq!(world.ask(Verb::Abort).view.state, State::Active);
}

#[test]
fn calls_are_not_acted_upon_in_maintenance() {
    let mut world = managed(World::new(direct(), Settings::default()));
    world.ask(Verb::Provide);
    while world.view.state != State::CleanWait {
        world.once();
    }
    world.view.maintenance = true;
    assert_eq!(world.view.heard(AGENT, world.now), Heartbeat::Recorded);
    assert!(world.view.agent.is_none());
    let Step::Wait { reason, .. } = next(&world.view, &world.timers, world.now) else {
        panic!()
    };
    assert!(reason.0.contains("maintenance"));
    world.view.maintenance = false;
    assert_eq!(world.settle(), State::Available);
}

#[test]
fn power_that_may_not_go_off_is_cycled() {
    let stay = Settings {
        disable_power_off: true,
        ..Settings::default()
    };
    let mut world = available(World::new(direct(), stay));
    assert_eq!(world.ask(Verb::Active).settle(), State::Active);
    assert!(!world.log.iter().any(|line| line == "power off"));
    assert_eq!(world.log.last().unwrap(), "power cycle");
}

#[test]
fn an_installed_system_is_started_without_the_firmware_where_that_is_wanted() {
    let kexec = Settings {
        kexec: true,
        ..fast_track()
    };
    let network = drivers(DeployBy::Direct, InspectBy::Agent, BootBy::Pxe);
    let mut world = available(World::new(network, kexec));
    world.log.clear();
    assert_eq!(world.ask(Verb::Active).settle(), State::Active);
    let start = "starting the installed system";
    assert_eq!(world.log[world.log.len() - 2], start);
    assert!(!world.log.iter().any(|line| line.starts_with("power")));
    assert_eq!(world.view.power, Some(Power::On));
    assert!(world.view.agent.is_none());
    let disk = "setting the boot device to disk";
    assert!(
        world.log.iter().any(|line| line == disk),
        "a later boot is the disk's"
    );

    // A medium is taken out of a host that is off.
    let media = drivers(DeployBy::Direct, InspectBy::Agent, BootBy::VirtualMedia);
    let mut world = available(World::new(media, kexec));
    assert_eq!(world.ask(Verb::Active).settle(), State::Active);
    assert_eq!(world.log.last().unwrap(), "power on");
}

#[test]
fn an_agent_seen_to_be_done_is_asked_without_its_call() {
    let mut world = available(World::new(direct(), Settings::default()));
    world.ask(Verb::Active);
    while world.view.running_step().is_none() || world.view.state != State::WaitCallBack {
        world.once();
    }
    let now = world.now + Duration::from_mins(5);
    world.view.answered(false, now);
    assert_eq!(world.view.since, now, "an answer is a sign of life");
    let waits = next(&world.view, &world.timers, now);
    assert!(matches!(waits, Step::Wait { .. }), "{waits:?}");
    world.view.answered(true, now);
    let asks = next(&world.view, &world.timers, now);
    assert!(matches!(asks, Step::Do(Work::CheckStep(_))), "{asks:?}");
    assert_eq!(world.settle(), State::Active);
}

#[test]
fn a_host_without_power_fails_its_step_at_once() {
    let mut world = available(World::new(direct(), Settings::default()));
    world.view.lost_power();
    assert_eq!(world.view.state, State::Available, "nothing was running");
    world.ask(Verb::Active);
    while world.view.running_step().is_none() || world.view.state != State::WaitCallBack {
        world.once();
    }
    world.view.boot_trace = Some("its agent stopped answering (at 43 % of writing)".into());
    world.view.lost_power();
    assert_eq!(world.settle(), State::DeployFailed);
    assert_eq!(
        world.view.last_error.as_deref(),
        Some(
            "the host lost its power during step deploy.write_image; last seen: its agent stopped answering (at 43 % of writing)"
        )
    );
    assert_eq!(world.ask(Verb::Active).settle(), State::Active);
}
