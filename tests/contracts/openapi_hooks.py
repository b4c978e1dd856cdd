"""What schemathesis may not call a failure, each with its reason; whatever else it finds fails the test.

A filter decides by the request that was made and the answer that came: the same answer to another request, or
another one to the same, stays a failure. What was asked, and answered how, is counted and printed at the end."""
import atexit
import collections

import schemathesis
from schemathesis.openapi.checks import RejectedPositiveData

TEXT_BYTES_MAX = {"category": 100, "event_type": 200}
CURSOR_CODES = {"invalid_cursor", "cursor_unsupported", "cursor_mismatch"}
let_pass = collections.Counter()
answers = collections.Counter()
walked = collections.Counter()


def said_by(response):
    try:
        return response.json()
    except ValueError:
        return {}


def cursor_of(case):
    body = case.body if isinstance(case.body, dict) else {}
    return (case.query or {}).get("cursor") or body.get("up_to")


def reason_to_pass(failure, case, response):
    if not isinstance(failure, RejectedPositiveData) or response.status_code not in (400, 422):
        return None
    said = said_by(response)
    code, parameter = said.get("code"), said.get("parameter", "")
    query = case.query or {}
    if code == "idempotency_mismatch" and "Idempotency-Key" in (case.headers or {}):
        return "a schema cannot say which keys were used before"
    if code in CURSOR_CODES and cursor_of(case):
        return "a schema cannot say which cursors this reader signed, for whom and for which walk"
    if code == "invalid_parameter" and parameter == "direction" and query.get("direction") == "newer" and not cursor_of(case):
        return "OpenAPI cannot say that direction=newer needs a cursor"
    if code == "invalid_parameter" and parameter == "after" and query.get("after"):
        return "a schema cannot say how many rows an export has"
    if code == "invalid_parameter" and len(str(query.get(parameter, "")).encode()) > TEXT_BYTES_MAX.get(parameter, 256):
        return "a schema counts characters, the contract bytes"
    return None


@schemathesis.hook
def filter_failure(context, failure, case, response):
    reason = reason_to_pass(failure, case, response)
    let_pass[reason] += 1
    return reason is None


FILTERS = {"category", "event_type", "unread"}
came_with = {}  # the filters of each cursor that an answer gave


@schemathesis.hook
def before_call(context, case, kwargs):
    """Walks are those of a client: in a workspace of its own, and a link's parameter that its source did not send
    is not sent on, where schemathesis makes one up. What is made up is asked in the other phases."""
    if case.meta is None or case.meta.phase.name.value != "stateful":
        return
    if "workspace" in (case.path_parameters or {}):
        case.path_parameters["workspace"] = "acme"
    cursor = cursor_of(case)
    if cursor in came_with:
        kept = {name: value for name, value in (case.query or {}).items() if name in ("limit", "cursor")}
        case.query = kept | came_with[cursor]


@schemathesis.hook
def after_call(context, case, response):
    answers[response.status_code] += 1
    if response.status_code not in (200, 202, 204):
        return
    if cursor_of(case) or "/exports" in case.operation.label:
        walked[case.operation.label] += 1
    filters = {name: value for name, value in (case.query or {}).items() if name in FILTERS}
    for name in ("next_cursor", "prev_cursor"):
        cursor = said_by(response).get(name)
        if cursor:
            came_with[cursor] = filters


@atexit.register
def tell():
    print("answers:", ", ".join(f"{count} of {status}" for status, count in sorted(answers.items())))
    for label, count in sorted(walked.items()):
        print(f"went on: {count} from {label}")
    for reason, count in let_pass.items():
        if reason:
            print(f"let pass {count}: {reason}")
