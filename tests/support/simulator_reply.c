/* What an answer is made of: JSON, the provider's error list, plain text. Nothing is sent here. */
#include <stdlib.h>
#include <string.h>

#include "support/simulator.h"

static int add_bytes(const char *bytes, size_t count, void *body)
{
    buffer_add(body, bytes, count);
    return ((struct buffer *)body)->failed ? -1 : 0;
}

static void begin(struct sim_request *request, unsigned status, const char *type)
{
    buffer_reset(&request->reply.body);
    request->reply.status = status;
    strncpy(request->reply.content_type, type, sizeof request->reply.content_type - 1);
}

void sim_reply_json(struct sim_request *request, unsigned status, const json_t *value)
{
    begin(request, status, "application/json; charset=utf-8");
    if (json_dump_callback(value, add_bytes, &request->reply.body, JSON_COMPACT | JSON_ENCODE_ANY) != 0)
        sim_reply_text(request, 500, "text/plain", "the reply is too large");
}

void sim_reply_text(struct sim_request *request, unsigned status, const char *type, const char *text)
{
    begin(request, status, type);
    buffer_add_text(&request->reply.body, text);
}

void sim_reply_headers(struct sim_request *request, json_t *headers)
{
    if (request->reply.headers == NULL)
        request->reply.headers = json_object();
    json_object_update(request->reply.headers, headers);
}

void sim_reply_error(struct sim_request *request, unsigned status, const char *code, const char *message,
                     json_t *details)
{
    bool transient = status == 429 || status >= 500;
    json_t *error = json_pack("{s:s, s:s, s:b}", "code", code, "message", message, "isTransient", transient);
    if (details != NULL)
        json_object_set_new(error, "details", details);
    json_t *reply = json_pack("{s:[o]}", "errors", error);
    sim_reply_json(request, status, reply);
    json_decref(reply);
}
