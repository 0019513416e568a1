# Starts the language server of TypeScript, opens a file, and asks where a function is defined, as an editor does.
import json, os, pathlib, subprocess, sys

root = pathlib.Path(os.environ["WS"]) / "language"
root.mkdir(exist_ok=True)
text = "function there(): void {}\nexport function here(): void {\n  there();\n}\n"
(root / "file.ts").write_text(text)
command = ["node", os.environ["LANGUAGE_SERVER"], "--stdio"]
server = subprocess.Popen(command, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def send(message):
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    server.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
    server.stdin.flush()


def receive():
    length = 0
    while line := server.stdout.readline().strip():
        name, value = line.split(b": ")
        length = int(value) if name == b"Content-Length" else length
    if not length:
        sys.exit("there is no language server: run `scripts/install` for it")
    return json.loads(server.stdout.read(length))


def ask(number, method, params):
    send({"id": number, "method": method, "params": params})
    while True:
        message = receive()
        if "method" in message and "id" in message:
            send({"id": message["id"], "result": None})
        elif message.get("id") == number:
            return message.get("result")


uri = (root / "file.ts").as_uri()
opened = {"uri": uri, "languageId": "typescript", "version": 1, "text": text}
ask(1, "initialize", {"processId": os.getpid(), "rootUri": root.as_uri(), "capabilities": {}})
send({"method": "initialized", "params": {}})
send({"method": "textDocument/didOpen", "params": {"textDocument": opened}})
at = {"textDocument": {"uri": uri}, "position": {"line": 2, "character": 4}}
found = ask(2, "textDocument/definition", at)
server.kill()
assert found and found[0].get("range", found[0].get("targetRange"))["start"]["line"] == 0, found
