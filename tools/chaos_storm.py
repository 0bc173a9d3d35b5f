"""One round of tools/chaos.py: workers, merges and status commands of a run, and the faults injected into them."""

import errno
import hashlib
import json
import os
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import psutil
from chaos_preload import KGQA, LOOK, WRITE, Control, environment

from kgqa_hpc.store.cleanup import LITTER_AGE

LEASE = 6.0  # s
WORKERS = 3
LONGEST_FINISH = 300.0  # s for two undisturbed workers to finish what is left; loaded machines are slow
BURSTS = (
    (errno.EIO, 3),
    (errno.ESTALE, LOOK),
    (errno.EACCES, LOOK),
    (errno.ENOENT, LOOK),
    (errno.ENOSPC, WRITE),
)
SKEWS = (0, 0, 3720, -3720, 7)  # s


class Broken(Exception):
    """An invariant of the run is violated."""


class Storm:
    """One round: a copy of the prepared run, tormented until it is complete or time is up."""

    def __init__(
        self,
        run: Path,
        library: Path,
        choose: random.Random,
        seen: Counter[str],
        place: Path,
        growth: Sequence[tuple[str, ...]] = (),
    ) -> None:
        self._growth = growth
        self._run, self._library, self._choose, self._seen, self._place = run, library, choose, seen, place
        self._workers: dict[subprocess.Popen[bytes], Control] = {}
        self._stopped: dict[subprocess.Popen[bytes], float] = {}
        self._others: list[tuple[str, subprocess.Popen[bytes]]] = []
        self._log = (place / "output.log").open("ab")
        self._ended = 0
        self._number = 0

    def rage(self, until: float) -> None:
        """Torment the run until it is complete or `until` on the monotonic clock."""
        while time.monotonic() < until:
            self._reap()
            while len(self._workers) < WORKERS:
                self._start_worker()
            action, weight = zip(*self._actions().items(), strict=True)
            name = self._choose.choices(action, weight)[0]
            self._seen[name] += 1
            getattr(self, f"_{name}")()
            time.sleep(self._choose.uniform(0.05, 0.6))
            if self._ended == -1:
                return

    def calm(self) -> None:
        """End of the faults: kill all processes, extend the run, finish it with two workers, and merge it by
        shared merges.
        """
        self.end()
        for verb, *words in self._growth:
            self._grow_calmly(verb, words)
        self._await("worker", [self._undisturbed("run", self._run) for _ in range(2)], {0})
        self._merge_shared()
        self._ended = 0
        self._look(environment())

    def _grow_calmly(self, verb: str, words: list[str]) -> None:
        """Repeat a command that makes the run grow; it may have been done in the storm."""
        done = subprocess.run(
            [*KGQA, verb, self._run, *words],
            env=environment(),
            capture_output=True,
            text=True,
            timeout=LONGEST_FINISH,
        )
        if done.returncode != 0 and "already, not below" not in done.stderr:
            raise Broken(f"an undisturbed {verb} ended with {done.returncode}: {done.stderr[-500:]}")

    def _merge_shared(self) -> None:
        """Three shared merges, one killed and one stopped for a while; then an undisturbed merge.

        A merge that begins after the others ended makes their folder again. If it is the killed one, the folder stays
        until a merge an hour later removes it, so the folder is made an hour older.
        """
        merges = [self._undisturbed("merge", "--shared", self._run) for _ in range(3)]
        time.sleep(self._choose.uniform(0.5, 3.0))
        merges[0].kill()
        merges[1].send_signal(signal.SIGSTOP)
        time.sleep(self._choose.uniform(0.5, 3.0))
        merges[1].send_signal(signal.SIGCONT)
        self._await("shared merge", merges[1:], {0})
        long_ago = time.time() - 2 * LITTER_AGE
        for folder in self._run.glob(".dataset.shared-*"):
            for path in (*folder.rglob("*"), folder):
                os.utime(path, (long_ago, long_ago))
        self._await("merge", [self._undisturbed("merge", self._run)], {0})

    def _undisturbed(self, *words: object) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [*KGQA, *map(str, words)], env=environment(), stdout=self._log, stderr=self._log
        )
        self._others.append((str(words[0]), process))  # for `end`, should it not end by itself
        return process

    def _await(self, what: str, processes: list[subprocess.Popen[bytes]], codes: set[int]) -> None:
        for process in processes:
            try:
                code = process.wait(LONGEST_FINISH)
            except subprocess.TimeoutExpired:
                raise Broken(f"it hangs: a {what} did not end within {LONGEST_FINISH:.0f} s") from None
            if code not in codes:
                raise Broken(f"an undisturbed {what} ended with {code}")

    def end(self) -> None:
        for process in [*self._workers, *(process for _, process in self._others)]:
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGCONT)
            process.kill()
            process.wait()
        self._workers, self._others, self._stopped = {}, [], {}

    def _actions(self) -> dict[str, int]:
        return {
            "kill_worker": 3,
            "kill_engine": 3,
            "stop_worker": 2,
            "signal_worker": 1,
            "burst": 6,
            "burst_for_all": 2,
            "full_disk": 1,
            "jump": 3,
            "look_calmly": 3,
            "look_in_a_burst": 2,
            "merge": 2,
            "grow": 2 if self._growth else 0,
        }

    def _start_worker(self) -> None:
        control = self._control()
        control.skew(self._choose.choice(SKEWS))
        self._workers[self._start(["run", str(self._run)], control)] = control

    def _control(self) -> Control:
        self._number += 1
        return Control(self._place / f"control-{self._number}")

    def _start(self, words: list[str], control: Control) -> subprocess.Popen[bytes]:
        env = environment(self._library, control, self._run)
        return subprocess.Popen([*KGQA, *words], env=env, stdout=self._log, stderr=self._log)

    def _reap(self) -> None:
        for process, since in list(self._stopped.items()):
            if time.monotonic() > since:
                process.send_signal(signal.SIGCONT)
                del self._stopped[process]
        for process in [process for process in self._workers if process.poll() is not None]:
            del self._workers[process]
            self._stopped.pop(process, None)
            self._seen[f"worker ended {process.returncode}"] += 1
            if process.returncode == 0:
                self._ended = -1
        for what, process in [each for each in self._others if each[1].poll() is not None]:
            self._others.remove((what, process))
            self._seen[f"{what} ended {process.returncode}"] += 1
        if (self._run / "dataset").exists():
            self._check_sums()

    def _check_sums(self) -> None:
        """Check SHA256SUMS of the dataset, again if a merge replaces the dataset meanwhile."""
        for _ in range(50):
            listed, found = {}, {}
            with suppress(FileNotFoundError):
                lines = (self._run / "dataset" / "SHA256SUMS").read_text().splitlines()
                listed = {name: digest for digest, _, name in (line.partition("  ") for line in lines)}
                found = {
                    name: hashlib.sha256((self._run / "dataset" / name).read_bytes()).hexdigest()
                    for name in listed
                }
            if listed and listed == found:
                return
        raise Broken("the dataset's checksums do not fit")

    def _victim(self) -> subprocess.Popen[bytes]:
        return self._choose.choice(list(self._workers))

    def _kill_worker(self) -> None:
        self._victim().kill()

    def _kill_engine(self) -> None:
        with suppress(psutil.Error):
            for child in psutil.Process(self._victim().pid).children():
                child.kill()

    def _stop_worker(self) -> None:
        victim = self._victim()
        with suppress(ProcessLookupError):
            victim.send_signal(signal.SIGSTOP)
            self._stopped[victim] = time.monotonic() + self._choose.uniform(0.5, 2 * LEASE)

    def _signal_worker(self) -> None:
        self._victim().send_signal(self._choose.choice([signal.SIGTERM, signal.SIGUSR1, signal.SIGINT]))

    def _burst(self) -> None:
        code, which = self._choose.choice(BURSTS)
        self._workers[self._victim()].burst(code, self._choose.uniform(0.05, 2.0), which)

    def _burst_for_all(self) -> None:
        code, which = self._choose.choice(BURSTS)
        seconds = self._choose.uniform(0.05, 1.5)
        for control in self._workers.values():
            control.burst(code, seconds, which)

    def _full_disk(self) -> None:
        for control in self._workers.values():
            control.burst(errno.ENOSPC, 2.0, WRITE)

    def _jump(self) -> None:
        self._workers[self._victim()].skew(self._choose.choice(SKEWS))

    def _merge(self) -> None:
        for _ in range(self._choose.choice([1, 2])):
            control = self._control()
            if self._choose.random() < 0.3:
                control.burst(self._choose.choice(BURSTS)[0], 3.0)
            control.skew(self._choose.choice(SKEWS))
            process = self._start(["merge", "--partial", str(self._run)], control)
            self._others.append(("merge", process))
        if self._choose.random() < 0.3:
            time.sleep(self._choose.uniform(0.5, 2.0))
            process.kill()

    def _grow(self) -> None:
        """Draw a larger sample or add a judge in mid-run, under a random burst of errors or kill."""
        verb, *words = self._choose.choice(self._growth)
        control = self._control()
        if self._choose.random() < 0.3:
            control.burst(self._choose.choice(BURSTS)[0], 1.0)
        process = self._start([verb, str(self._run), *words], control)
        self._others.append((verb, process))
        self._ended = min(self._ended, 0)  # an item has more to do with another judge
        if self._choose.random() < 0.4:
            time.sleep(self._choose.uniform(0.5, 3.0))
            process.kill()

    def _look_in_a_burst(self) -> None:
        control = self._control()
        process = self._start(["status", str(self._run)], control)
        time.sleep(self._choose.uniform(0.2, 0.8))
        control.burst(self._choose.choice([errno.EIO, errno.ESTALE, errno.EACCES, errno.ENOENT]), 0.3, LOOK)
        self._others.append(("status in a burst", process))

    def _look_calmly(self) -> None:
        self._look(environment())

    def _look(self, env: dict[str, str]) -> None:
        answer = subprocess.run(
            [*KGQA, "status", "--json", self._run], env=env, capture_output=True, timeout=LONGEST_FINISH
        )
        if answer.returncode != 0:
            raise Broken(f"status ended with {answer.returncode}: {answer.stderr.decode()[-500:]}")
        now = json.loads(answer.stdout)
        if sum(now["verdicts"].values()) != now["items"]["total"]:
            raise Broken(f"the status does not add up: {now['verdicts']} of {now['items']}")
        growing = any(what in ("extend", "judge") for what, _ in self._others)
        if now["items"]["ended"] < self._ended and not growing:
            raise Broken(f"the status went back from {self._ended} to {now['items']['ended']}")
        if self._ended >= 0:
            self._ended = 0 if growing else now["items"]["ended"]
