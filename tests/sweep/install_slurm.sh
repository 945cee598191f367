#!/usr/bin/env bash
# What tests/sweep/test_slurm.py needs, on Debian and Ubuntu; without it they are skipped.
# Nothing is started: the tests start a scheduler of their own, on loopback.
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive
command -v slurmctld slurmd munged >/dev/null && exit
# Debian starts the daemons of a package at once, unless it is told not to.
printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
trap 'rm -f /usr/sbin/policy-rc.d' EXIT
chmod +x /usr/sbin/policy-rc.d
apt-get update -qq
timeout 300 apt-get install -y -qq slurm-wlm munge
