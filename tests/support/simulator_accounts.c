/* The account service of contracts/preferences.md: which users and categories may be pushed to. */
#include "support/simulator.h"

static void answer_users(struct sim_request *request, const json_t *users)
{
    json_t *found = json_object();
    for (size_t i = 0; i < json_array_size(users); i++) {
        const char *user = json_string_value(json_array_get(users, i));
        json_t *answer = user == NULL ? NULL : json_object_get(request->sim->preferences, user);
        if (answer != NULL)
            json_object_set(found, user, answer);
    }
    json_t *reply = json_pack("{s:o}", "users", found);
    sim_reply_json(request, 200, reply);
    json_decref(reply);
}

void sim_accounts(struct sim_request *request)
{
    struct sim_counters *counters = &request->sim->counters[SIM_PREFERENCES];
    struct sim_match match;
    json_t *value = json_loadb(request->body.bytes > 0 ? request->body.at : "", request->body.bytes, 0, NULL);
    json_t *users = json_object_get(value, "users");
    long count = (long)json_array_size(users);
    sim_match_rules(request, users, &match);
    if (!json_is_array(users) || count > SIM_USERS_MAX) {
        counters->refused++;
        sim_reply_text(request, 400, "text/plain", "\"users\": an array of at most 200");
    } else {
        counters->accepted += count;
        counters->largest = count > counters->largest ? count : counters->largest;
        answer_users(request, users);
    }
    sim_match_apply(request, &match);
    json_decref(value);
}
