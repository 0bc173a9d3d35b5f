"""Names from a web service: asked slowly, one id at a time, each answer kept on disk before the next.

The answers of a space are lines of JSON in one file that is only appended to: `{"id", "name", "date"}`, name
null where the service knows no such id. A torn last line is cut; so a killed hydration asks nothing twice.
What gets no answer is not written: it is asked again next time.
"""

from __future__ import annotations

import http.client
import os
import time
import urllib.error
import urllib.parse
import urllib.request
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from kgqa_hpc.plugins.biokg.hydrate.recipe import Resolver
from kgqa_hpc.store.atomic import make_folder
from kgqa_hpc.text import bounded_json, services
from kgqa_hpc.text.opener import open_append, read_bytes

# Bytes of an answer; a real one has a few hundred.
_LONGEST_ANSWER = 1 << 20
_FAILURES = (OSError, http.client.HTTPException, ValueError)
AGENT = "kgqa_hpc hydration"


class Answers:
    """The answers of one space so far, on disk."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.known: dict[str, dict[str, Any]] = {}
        data = read_bytes(path) if path.exists() else b""
        self._whole = data.rfind(b"\n") + 1
        for line in data[: self._whole].split(b"\n"):
            try:
                answer = bounded_json.loads(line)
                self.known.setdefault(str(answer["id"]), answer)
            except (orjson.JSONDecodeError, KeyError, TypeError):
                continue  # a damaged line is an answer less: it is asked for again

    def add(self, key: str, name: str | None) -> None:
        """Keep an answer; it is on disk when this returns."""
        answer = {"id": key, "name": name, "date": datetime.now(UTC).date().isoformat()}
        make_folder(self.path.parent)
        with open(open_append(self.path), "ab") as file:
            if file.tell() > self._whole:
                file.truncate(self._whole)
                file.seek(self._whole)
            file.write(orjson.dumps(answer) + b"\n")
            file.flush()
            os.fsync(file.fileno())
            self._whole = file.tell()
        self.known[key] = answer


class Web:
    """One web service, with what it has answered."""

    def __init__(self, resolver: Resolver, answers: Answers) -> None:
        self._resolver, self._answers = resolver, answers
        self._next = 0.0
        self._in_vain = 0

    def ask_all(self, keys: list[str], counts: Counter[str]) -> None:
        """Ask for each id that has no answer yet, in order; what went wrong is counted.

        A service that does not answer several times in a row is left alone.
        """
        for key in keys:
            if key in self._answers.known:
                continue
            if self._in_vain >= self._resolver.give_up_after:
                counts["unreachable"] += 1
                continue
            reason, name = self._ask(key)
            if reason:
                counts[reason] += 1
            if reason == "unreachable":
                self._in_vain += 1
                continue
            self._in_vain = 0
            self._answers.add(key, name)

    def _ask(self, key: str) -> tuple[str, str | None]:
        """The reason for a missing name (or ""), and the name."""
        url = self._resolver.url.replace("{id}", urllib.parse.quote(key, safe=""))
        request = urllib.request.Request(url, headers={"Accept": "application/json", "User-Agent": AGENT})
        for attempt in range(self._resolver.attempts):
            # Keep to the allowed pace, and wait longer after each failure
            pause = max(0.0, self._next - time.monotonic()) + (2**attempt - 1) / self._resolver.per_second
            if pause:
                time.sleep(min(pause, 60.0))
            self._next = time.monotonic() + 1 / self._resolver.per_second
            try:
                with services.answer_within(request, self._resolver.timeout) as response:
                    body = response.read(_LONGEST_ANSWER + 1)
                return self._read(key, body)
            except urllib.error.HTTPError as problem:
                problem.close()
                if problem.code in (404, 410):
                    return "not_found", None
            except _FAILURES:
                continue
        return "unreachable", None

    def _read(self, key: str, body: bytes) -> tuple[str, str | None]:
        try:
            if len(body) > _LONGEST_ANSWER:
                raise ValueError("too long")
            answer = bounded_json.loads(body)
            name = _follow(answer, self._resolver.name)
            if self._resolver.check is not None and str(_follow(answer, self._resolver.check)) != key:
                return "another_id", None
        except (ValueError, KeyError, IndexError, TypeError):
            return "unreadable", None
        return ("", name) if isinstance(name, str) and name.strip() else ("not_found", None)


def _follow(answer: Any, keys: list[str | int]) -> Any:
    for key in keys:
        answer = answer[key]
    return answer
