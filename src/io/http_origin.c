/* Web pages of other origins (the fetch standard's CORS). In: the Origin of a request and the list of
 * `[http] cors_origins`. Out: the fields that let a browser hand the reply to such a page. Always: an origin
 * is compared byte by byte with the list, never with a pattern; without a list nothing is added. */
#include <stdio.h>
#include <string.h>

#include "http_private.h"

enum { ORIGIN_BYTES_MAX = 256, PORT_DIGITS_MAX = 5 };

static const char field[] = "http.cors_origins";

static bool is_of(const char *text, size_t bytes, const char *more)
{
    for (size_t i = 0; i < bytes; i++) {
        bool plain = (text[i] >= 'a' && text[i] <= 'z') || (text[i] >= '0' && text[i] <= '9');
        if (!plain && strchr(more, text[i]) == NULL)
            return false;
    }
    return bytes > 0;
}

/* scheme://host or scheme://host:port as a browser writes it. */
static bool is_origin(const char *text)
{
    const char *rest = strstr(text, "://");
    if (rest == NULL || strlen(text) > ORIGIN_BYTES_MAX || !is_of(text, (size_t)(rest - text), "+-."))
        return false;
    rest += 3;
    bool bracket = *rest == '[';
    size_t host = strcspn(rest, bracket ? "]" : ":");
    if (!is_of(rest + bracket, host - bracket, bracket ? ":" : "-._"))
        return false;
    rest += host;
    if (bracket && *rest++ != ']')
        return false;
    size_t digits = *rest == ':' ? strspn(rest + 1, "0123456789") : 0;
    return rest[0] == '\0' || (digits > 0 && digits <= PORT_DIGITS_MAX && rest[1 + digits] == '\0');
}

static bool has_default_port(const char *text)
{
    const char *port = strrchr(text, ':');
    return (strncmp(text, "https:", 6) == 0 && strcmp(port, ":443") == 0) ||
           (strncmp(text, "http:", 5) == 0 && strcmp(port, ":80") == 0);
}

static enum status refuse(struct fault *fault, const char *why)
{
    fault_set(fault, "config", "%s: %s", field, why);
    fault_set_field(fault, field);
    return ST_REJECT;
}

enum status http_origins_check(const struct config_list *origins, struct fault *fault)
{
    if (origins->count > HTTP_ORIGINS_MAX)
        return refuse(fault, "at most 64 origins are taken");
    for (size_t i = 0; i < origins->count; i++) {
        if (!is_origin(origins->items[i]))
            return refuse(fault,
                          "an origin is scheme://host or scheme://host:port in lower case, without a path or"
                          " a slash at the end; there is no * here");
        if (has_default_port(origins->items[i]))
            return refuse(fault, "a browser leaves out :443 of https and :80 of http: leave it out too");
    }
    return ST_OK;
}

/* The list's own text of the request's origin; NULL: none of ours. */
static const char *find(const struct config_list *origins, struct span origin)
{
    for (size_t i = 0; origin.at != NULL && i < origins->count; i++) {
        if (span_is(origin, origins->items[i]))
            return origins->items[i];
    }
    return NULL;
}

size_t http_origin_fields(const struct http_request *request, const struct config_list *origins,
                          struct http_field fields[HTTP_ORIGIN_FIELDS])
{
    size_t count = 0;
    if (origins->count == 0)
        return 0;
    fields[count++] =
        (struct http_field){"Vary", "Origin"}; /* also without one: a cache must not mix them up */
    const char *origin = find(origins, request->headers[HTTP_ORIGIN]);
    if (origin == NULL)
        return count;
    fields[count++] = (struct http_field){"Access-Control-Allow-Origin", origin};
    fields[count++] = (struct http_field){"Access-Control-Expose-Headers",
                                          "ETag, Link, Location, Request-Id, Retry-After, WWW-Authenticate"};
    return count;
}

bool http_origin_preflight(struct http_request *request, const struct config_list *origins, const char *allow)
{
    static const char headers[] = "Authorization, Content-Type, Idempotency-Key, If-None-Match, Traceparent";
    if (request->method != HTTP_OPTIONS || find(origins, request->headers[HTTP_ORIGIN]) == NULL ||
        request->headers[HTTP_ACCESS_CONTROL_REQUEST_METHOD].at == NULL)
        return false;
    const struct http_field fields[] = {
        {"Allow", allow},
        {"Access-Control-Allow-Methods", allow},
        {"Access-Control-Allow-Headers", headers},
        {"Access-Control-Max-Age", "3600"}, /* seconds */
    };
    http_request_reply(request, &(const struct http_reply){.status = 204,
                                                           .fields = fields,
                                                           .field_count = sizeof fields / sizeof fields[0]});
    return true;
}
