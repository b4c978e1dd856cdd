/* Is a message one that the provider takes? Only shape: what becomes of it is simulator_push.c's business.
 * Source: contracts/provider.md, and the types of expo-server-sdk 6.1.0. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "support/simulator.h"

enum kind { STRING, STRING_OR_OBJECT, WHOLE, NUMBER, BOOLEAN, OBJECT, PRIORITY, LEVEL, RECIPIENT };

static const struct {
    const char *name;
    enum kind kind;
    const char *must;
} members[] = {
    {"to", RECIPIENT, "must be a valid Expo push token or an array of them"},
    {"title", STRING, "must be a string"},
    {"body", STRING, "must be a string"},
    {"subtitle", STRING, "must be a string"},
    {"data", OBJECT, "must be of type object"},
    {"ttl", WHOLE, "must be a whole number of at least 0"},
    {"expiration", NUMBER, "must be a number"},
    {"priority", PRIORITY, "must be one of [default, normal, high]"},
    {"sound", STRING_OR_OBJECT, "must be a string or an object"},
    {"badge", WHOLE, "must be a whole number of at least 0"},
    {"interruptionLevel", LEVEL, "must be one of [active, critical, passive, time-sensitive]"},
    {"channelId", STRING, "must be a string"},
    {"categoryId", STRING, "must be a string"},
    {"mutableContent", BOOLEAN, "must be a boolean"},
    {"collapseId", STRING, "must be a string"},
    {"tag", STRING, "must be a string"},
    {"icon", STRING, "must be a string"},
    {"richContent", OBJECT, "must be of type object"},
    {"_contentAvailable", BOOLEAN, "must be a boolean"},
};

static bool in_list(const json_t *value, const char *list)
{
    char wrapped[48];
    if (!json_is_string(value))
        return false;
    int bytes = snprintf(wrapped, sizeof wrapped, ",%s,", json_string_value(value));
    return bytes < (int)sizeof wrapped && strstr(list, wrapped) != NULL;
}

/* 8-4-4-4-12 letters and digits. */
static bool is_bare_token(const char *token)
{
    static const char shape[] = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";
    if (strlen(token) != sizeof shape - 1)
        return false;
    for (size_t i = 0; shape[i] != '\0'; i++) {
        if (shape[i] == '-' ? token[i] != '-' : !isalnum((unsigned char)token[i]))
            return false;
    }
    return true;
}

static bool is_token(const json_t *value)
{
    const char *token = json_string_value(value);
    if (token == NULL)
        return false;
    size_t bytes = strlen(token);
    bool wrapped = strncmp(token, "ExponentPushToken[", 18) == 0 || strncmp(token, "ExpoPushToken[", 14) == 0;
    return (wrapped && token[bytes - 1] == ']') || is_bare_token(token);
}

static bool is_recipient(const json_t *value)
{
    if (!json_is_array(value))
        return is_token(value);
    for (size_t i = 0; i < json_array_size(value); i++) {
        if (!is_token(json_array_get(value, i)))
            return false;
    }
    return json_array_size(value) > 0;
}

static bool fits(const json_t *value, enum kind kind)
{
    switch (kind) {
    case STRING:
        return json_is_string(value);
    case STRING_OR_OBJECT:
        return json_is_string(value) || json_is_object(value) || json_is_null(value);
    case WHOLE:
        return json_is_integer(value) && json_integer_value(value) >= 0;
    case NUMBER:
        return json_is_number(value);
    case BOOLEAN:
        return json_is_boolean(value);
    case OBJECT:
        return json_is_object(value);
    case PRIORITY:
        return in_list(value, ",default,normal,high,");
    case LEVEL:
        return in_list(value, ",active,critical,passive,time-sensitive,");
    case RECIPIENT:
        return is_recipient(value);
    }
    return false;
}

const char *sim_validate_message(json_t *message, size_t index, char *text, size_t text_bytes)
{
    const char *name;
    json_t *value;
    if (!json_is_object(message)) {
        (void)snprintf(text, text_bytes, "\"[%zu]\" must be of type object.", index);
        return text;
    }
    if (json_object_get(message, "to") == NULL) {
        (void)snprintf(text, text_bytes, "\"[%zu].to\" is required.", index);
        return text;
    }
    json_object_foreach(message, name, value)
    {
        size_t at = 0;
        while (at < sizeof members / sizeof *members && strcmp(name, members[at].name) != 0)
            at++;
        if (at == sizeof members / sizeof *members)
            (void)snprintf(text, text_bytes, "\"[%zu].%.40s\" is not allowed.", index, name);
        else if (!fits(value, members[at].kind))
            (void)snprintf(text, text_bytes, "\"[%zu].%s\" %s.", index, name, members[at].must);
        else
            continue;
        return text;
    }
    return NULL;
}
