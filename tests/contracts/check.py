"""Schemas against parsers: the same records, the same verdict, or the difference is in the README.

    check.py CONTRACTS_DIR CONTRACTS_PARSE ASYNCAPI_SCHEMA SETTLED

SETTLED: records as the database makes them, one a line."""
import json
import pathlib
import re
import subprocess
import sys

from jsonschema import Draft202012Validator, validators
from referencing import Registry, Resource

from records import records, settled

folder, parser = pathlib.Path(sys.argv[1]), sys.argv[2]
failures = []


def fail(text):
    failures.append(text)
    print("FAIL", text)


schemas = {path.name.split(".")[0]: json.loads(path.read_text()) for path in folder.glob("*.schema.json")}
registry = Registry().with_resources((s["$id"], Resource.from_contents(s)) for s in schemas.values())
validator = {}
for name, schema in schemas.items():
    Draft202012Validator.check_schema(schema)
    validator[name] = Draft202012Validator(schema, registry=registry)
    for example in schema["examples"]:
        if not validator[name].is_valid(example):
            fail(f"{name}: its own example is not valid")


def schema_takes(kind, value):
    try:
        instance = json.loads(value if isinstance(value, bytes) else value.encode("utf-8", "surrogatepass"))
    except ValueError:
        return False
    return validator["event-cloudevent" if kind == "cloudevent" else kind].is_valid(instance)


def to_hex(value):
    return (value if isinstance(value, bytes) else value.encode()).hex()


fed = "".join(f"{kind}\t{to_hex(value)}\n" for kind, value, _, _ in records)
told = subprocess.run([parser], input=fed, capture_output=True, text=True, check=True).stdout.splitlines()
assert len(told) == len(records)
listed = set(re.findall(r"^\| `(\w+)` \|", (folder / "README.md").read_text(), re.M))
used, figures = set(), {}
for (kind, value, says, difference), word in zip(records, told):
    word, shown = word.strip(), str(value)[:200]
    if word != says:
        fail(f"{kind}: the parser says '{word}', expected '{says}': {shown}")
    taken = schema_takes(kind, value)
    agree = taken == (word == "ok")
    if difference is None and not agree:
        fail(f"{kind}: the schema {'takes' if taken else 'refuses'} it, the parser says '{word}': {shown}")
    if difference is not None and agree:
        fail(f"{kind}: no difference '{difference}' here, schema and parser agree: {shown}")
    if difference is not None and difference not in listed:
        fail(f"the difference '{difference}' is not listed in README.md")
    if difference is not None:
        used.add(difference)
    row = figures.setdefault(kind, {"accepted": 0, "refused": 0, "listed differences": 0})
    row["listed differences" if difference else "accepted" if word == "ok" else "refused"] += 1
for difference in listed - used:
    fail(f"the difference '{difference}' is listed, and no record shows it")
for value, valid in settled:
    if schema_takes("settled", value) != valid:
        fail(f"settled: the schema {'refuses' if valid else 'takes'} {value}")
made = pathlib.Path(sys.argv[4]).read_text().strip().split("\n")  # not splitlines(): U+2028 is text
members = set(schemas["settled"]["properties"])
for line in made:
    if not schema_takes("settled", line) or set(json.loads(line)) != members:
        fail(f"settled: the schema refuses what the database makes, or names other members: {line[:400]}")
if len(made) < 100:
    fail(f"settled: only {len(made)} records of the database")
for kind, row in figures.items():
    print(f"{kind:12}", ", ".join(f"{count} {what}" for what, count in row.items()))
print(f"settled      {len(settled)} by the schema alone, {len(made)} of the database's own; {len(used)} differences listed and shown")

asyncapi = json.loads((folder / "asyncapi.json").read_text())
rules = json.loads(pathlib.Path(sys.argv[3]).read_text())
for error in validators.validator_for(rules)(rules).iter_errors(asyncapi):
    fail(f"asyncapi.json: {list(error.path)}: {error.message[:200]}")


def references(node):
    if isinstance(node, dict):
        if "$ref" in node:
            yield node["$ref"]
        node = list(node.values())
    for child in node if isinstance(node, list) else []:
        yield from references(child)


for reference in set(references(asyncapi)):
    file, _, pointer = reference.partition("#")
    target = json.loads((folder / file).read_text()) if file else asyncapi
    for step in filter(None, pointer.split("/")):
        if step not in target:
            fail(f"asyncapi.json: {reference} leads nowhere")
            break
        target = target[step]
print(f"asyncapi.json: valid AsyncAPI {asyncapi['asyncapi']}, every reference found")
sys.exit(1 if failures else 0)
