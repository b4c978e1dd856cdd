"""Records for the contracts test: (kind, value, what the parser must say, difference).

The parser's word is "ok" or a reason code and, where there is one, its field. `difference` is None where the
schema must say the same (valid or not), else the id of the difference in config/contracts/README.md."""
import json

EVENT = {"run_id": "r", "event_type": "t", "workspace_id": "w", "recipient_user_id": "u", "title": "x"}
CLOUD = {"specversion": "1.0", "id": "7", "source": "/app", "type": "t",
         "data": {"workspace_id": "w", "recipient_user_id": "u", "title": "x"}}
REGISTER = {"op": "register", "user_id": "u", "token": "T", "platform": "ios"}
RECEIPT = {"v": 1, "dispatch_id": "2097152", "notification_id": "01a22e2f-4e4e-757a-bc43-b2c51ed55cf7",
           "workspace_id": "w", "recipient_user_id": "u", "device_id": "363", "outcome": "sent", "ticket": "t",
           "error": None, "detail": None, "attempt": 1, "at": "2026-11-30T20:40:07.533625Z"}
GONE = object()
records = []


def add(kind, base, says, difference=None, **members):
    value = {**base, **members}
    records.append((kind, json.dumps({k: v for k, v in value.items() if v is not GONE}, ensure_ascii=False),
                    says, difference))


def raw(kind, value, says, difference=None):
    records.append((kind, value, says, difference))


def event(says, difference=None, **members):
    add("event", EVENT, says, difference, **members)


def nested(depth):
    value = 1
    for _ in range(depth):
        value = {"a": value}
    return value


# -- events: accepted
event("ok")
event("ok", v=1, category="c", body="", unknown={"x": [None]}, data={}, idempotency_key="k",
      occurred_at="2026-03-21T09:00:00.1234567+01:00", expires_at="2026-03-22t00:00:00z", push=False)
event("ok", run_id=GONE, idempotency_key="k")
event("ok", recipient_user_id=GONE, recipients=["a", "b", "a"])
event("ok", recipient_user_id=GONE, recipients=["u%d" % i for i in range(10000)])
event("ok", title="x" * 500, body="y" * 4000, run_id="r" * 200, category="c" * 100, idempotency_key="k" * 500)
event("ok", data={"n": 0.1, "big": 9007199254740993})
event("ok", data=nested(32))
event("ok", push={"ttl": 0, "priority": "high", "sound": "default", "badge": 2147483647, "channel_id": "c",
                  "subtitle": "", "interruption_level": "time-sensitive", "mutable_content": True,
                  "collapse_id": "c" * 64, "tag": "t", "unknown": None})
event("ok", push={})
event("ok", occurred_at="2016-12-31T23:59:60Z")
event("ok", title="a\\u0000b")  # six visible characters

# -- events: refused by both
for name in ("run_id", "event_type", "workspace_id", "title", "recipient_user_id"):
    event("field " + name, **{name: GONE})
    event("field " + name, **{name: ""})
    event("field " + name, **{name: 7})
    event("field " + name, **{name: None})
    event("field " + name, **{name: "x" * (501 if name == "title" else 201)})
    event("nul", **{name: "a\0b"})
event("field run_id", run_id="", idempotency_key="k")
event("field recipients", recipients=["u"])
for recipients in ([], "u", ["a", 1], ["a", ""], ["a", None], ["x" * 201], ["u%d" % i for i in range(10001)]):
    event("field recipients", recipient_user_id=GONE, recipients=recipients)
for member, values in {
        "v": (2, 0, "1", None), "category": ("", None, "c" * 101, 5), "body": (None, 5, "y" * 4001),
        "idempotency_key": ("", 7, "k" * 501), "data": ([], None, "{}", 1),
        "push": (True, None, "off", [], 0),
        "occurred_at": ("now", "infinity", "", 1774083600, None, "2026-03-21", "2026-03-21 09:00:00Z",
                        "2026-03-21T09:00:00", "2026-13-01T00:00:00Z", "2026-01-32T00:00:00Z",
                        "2026-03-21T24:00:00Z", "2026-03-21T09:60:00Z", "2026-03-21T09:00:61Z",
                        "0000-01-01T00:00:00Z", "10000-01-01T00:00:00Z", "2026-03-21T09:00:00+24:00",
                        "2026-03-21T09:00:00.Z", "2026-03-21T09:00:00Z ", "20260321T090000Z"),
        "expires_at": ("tomorrow", "")}.items():
    for value in values:
        event("field " + member, **{member: value})
for option, values in {
        "ttl": (-1, 1.5, "60", 2147483648, None), "priority": ("urgent", "High", 1, None), "sound": (True, "", "s" * 201),
        "badge": (-1, "1"), "channel_id": ("", 1), "subtitle": (1, "s" * 501), "interruption_level": ("loud",),
        "mutable_content": (1, "true"), "collapse_id": ("", "c" * 65), "tag": ({}, "")}.items():
    for value in values:
        event("field push." + option, push={option: value})
for value in ("", "this-is-not-json {{{", "{", '{"a":1,}', "{'a':1}", "{}x", '{"a":.5}'):
    raw("event", value, "json")
for value in ("null", "[]", "42", '"{}"'):
    raw("event", value, "not_object")
raw("event", b"\xff\xfe{}", "json")
raw("event", b"\0\0\0\0\1{}", "json")

# -- events: what a schema cannot say
event("field title", "bytes", title="\u00e9" * 251)
event("too_big data", "bytes", data={"x": "y" * 16384})
event("too_big data", "depth", data=nested(33))
event("too_big", "record", unknown="x" * 1048576)
event("too_big recipients", "record", recipient_user_id=GONE, recipients=["u%d" % i for i in range(10000)],
      body="b" * 4000)
event("nul", "nul", unknown="a\0b")
event("nul", "nul", data={"a\0": 1})
raw("event", json.dumps(EVENT)[:-1] + ',"title":"y"}', "json", "doubled")
raw("event", json.dumps(EVENT)[:-1] + ',"data":{"a":1,"\\u0061":2}}', "json", "doubled")
raw("event", json.dumps(EVENT)[:-1] + ',"x":"\\ud800"}', "json", "surrogate")
event("json", "numbers", data={"x": 9223372036854775808})
raw("event", json.dumps(EVENT)[:-1] + ',"data":{"x":1e999}}', "json", "numbers")
event("field v", "whole", v=1.0)
event("field push.badge", "whole", push={"badge": 1.0})
event("field occurred_at", "calendar", occurred_at="2026-02-29T00:00:00Z")
event("field occurred_at", "calendar", occurred_at="2026-04-31T00:00:00Z")
event("field occurred_at", "calendar", occurred_at="0001-01-01T00:00:00+01:00")

# -- cloud events, structured
add("cloudevent", CLOUD, "ok")
add("cloudevent", CLOUD, "ok", time="2026-03-21T09:00:00Z", subject="s", dataschema="x", extension=1)
add("cloudevent", CLOUD, "ok", data=EVENT)
for name in ("specversion", "id", "source", "type"):
    for value in (GONE, "", 7, None):
        add("cloudevent", CLOUD, "field " + name, **{name: value})
    add("cloudevent", CLOUD, "nul", **{name: "a\0b"})
add("cloudevent", CLOUD, "field specversion", specversion="0.3")
add("cloudevent", CLOUD, "field type", type="t" * 201)
add("cloudevent", CLOUD, "field run_id", "source_id", id="i" * 150, source="s" * 150)
for data in (GONE, "x", [], None):
    add("cloudevent", CLOUD, "field data", data=data)
add("cloudevent", CLOUD, "field data_base64", data_base64="e30=")
add("cloudevent", CLOUD, "field title", data={"workspace_id": "w", "recipient_user_id": "u"})

# -- devices
add("device", REGISTER, "ok", app_version="1.0", at="2026-03-21T09:00:00Z", unknown=1)
add("device", REGISTER, "ok", platform="android", token="T" * 256)
add("device", {"op": "unregister", "token": "T"}, "ok")
add("device", {"op": "unregister", "token": "T"}, "ok", user_id=7)  # not looked at
for name, values in {"op": (GONE, "Register", 1, None), "token": (GONE, "", 7, "T" * 257, "caf\u00e9", "a\tb"),
                     "user_id": (GONE, "", 7, None, "u" * 201), "platform": (GONE, "iOS", "", 1),
                     "app_version": (1, None, "v" * 101), "at": ("now", 1)}.items():
    for value in values:
        add("device", REGISTER, "field " + name, **{name: value})
add("device", {"op": "unregister"}, "field token")
add("device", REGISTER, "nul", user_id="a\0")
raw("device", "{", "json")
raw("device", "[]", "not_object")

# -- receipts
add("receipt", RECEIPT, "ok")
add("receipt", RECEIPT, "ok", v=GONE, ticket=GONE, error=GONE, detail=GONE, unknown={})
add("receipt", RECEIPT, "ok", outcome="failed", error="Unconfirmed", detail="HTTP 502", ticket=None)
add("receipt", RECEIPT, "ok", outcome="suppressed", error="Preference")
add("receipt", RECEIPT, "ok", dispatch_id="-9223372036854775808", device_id="0")
for name, values in {
        "v": (2, "1"), "dispatch_id": (GONE, 2097152, "", "01", "1x", None), "notification_id": (GONE, "x", 7),
        "workspace_id": (GONE, "", 7), "recipient_user_id": (GONE, "", None), "device_id": (GONE, 363, "-"),
        "outcome": (GONE, "delivered", "queued", 1), "ticket": ("", 1), "error": ("", 1), "detail": ("", 1),
        "attempt": (GONE, 0, "1", 1.5), "at": (GONE, "now", None)}.items():
    for value in values:
        add("receipt", RECEIPT, "field " + name, **{name: value})
add("receipt", RECEIPT, "field error", outcome="failed")
add("receipt", RECEIPT, "field error", outcome="suppressed", error=GONE)
add("receipt", RECEIPT, "field dispatch_id", "bits", dispatch_id="9223372036854775808")

# -- settled: no parser of ours reads them; the schema alone
SETTLED = {**{k: RECEIPT[k] for k in ("v", "dispatch_id", "notification_id", "workspace_id", "recipient_user_id",
                                      "device_id", "at")}, "state": "delivered", "error": None, "version": 2}
settled = [({}, True), ({"state": "failed", "error": "Unconfirmed"}, True), ({"v": 2}, False),
           ({"state": "sent"}, False), ({"version": 0}, False), ({"version": "2"}, False), ({"at": "now"}, False),
           ({"dispatch_id": 7}, False), ({"error": ""}, False)]
settled = [(json.dumps({**SETTLED, **members}), valid) for members, valid in settled]
