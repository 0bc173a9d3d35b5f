"""A server of the chat API as a program, in place of vLLM: `python tests/chat_program.py [serve …] --port N`.

It answers with every field that a step asks for, and with the key it was sent ("said"); it refuses a prompt with
"please fail", and all with `--refuse`. $NOTES gets a line of JSON at its start and at each answer. `--fail` ends it
at once, `--headless` serves nothing.
"""

import json
import os
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TEXT = "Why is one entity so closely related to all of the others here?"
TEXTS = (
    "question answer my_answer analysis reflection draft_question draft_answer decline_reason "
    "question_reasoning answer_reasoning"
)
FLAGS = "valid_question original_answer_valid worth_asking ok"
ANSWER = {
    **dict.fromkeys(TEXTS.split(), TEXT),
    **dict.fromkeys(FLAGS.split(), True),
    "question_entities": ["a"],
    "answer_entities": ["b"],
}


def note(**more: Any) -> None:
    if "NOTES" in os.environ:
        with open(os.environ["NOTES"], "a", encoding="utf-8") as notes:
            notes.write(json.dumps({"pid": os.getpid(), "words": sys.argv[1:], **more}) + "\n")


class Handler(BaseHTTPRequestHandler):
    def log_message(self, *words: object) -> None:
        pass

    def send(self, status: int, body: Any) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self) -> None:
        self.send(200, {"version": "9.9"})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        key = (self.headers["Authorization"] or "").removeprefix("Bearer ")
        print("got key", key, file=sys.stderr, flush=True)
        note(model=body["model"], caches=os.environ.get("VLLM_CACHE_ROOT"))
        if "--refuse" in sys.argv or "please fail" in body["messages"][-1]["content"]:
            self.send(400, {"error": {"message": f"\x1b[31mno {key}"}})
            return
        message = {"content": json.dumps({**ANSWER, "said": key})}
        self.send(200, {"choices": [{"message": message, "finish_reason": "stop"}]})


if __name__ == "__main__":
    note()
    if "--fail" in sys.argv:
        sys.exit(3)
    if "--headless" in sys.argv:
        time.sleep(3600)
    port = int(sys.argv[sys.argv.index("--port") + 1])
    ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()
