/* Plans as JSON, added up. */
#include "plan_cost.h"

#include <criterion/criterion.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PLAN_BYTES = 1 << 18 };

static int64_t number_of(const json_t *node, const char *name)
{
    return json_integer_value(json_object_get(node, name));
}

static void weigh(const json_t *node, const char *relation, struct plan_cost *cost)
{
    const char *name = json_string_value(json_object_get(node, "Relation Name"));
    int64_t loops = number_of(node, "Actual Loops");
    int64_t rows = loops * (number_of(node, "Actual Rows") + number_of(node, "Rows Removed by Filter") +
                            number_of(node, "Rows Removed by Index Recheck") +
                            number_of(node, "Rows Removed by Join Filter"));
    cost->rows_max = rows > cost->rows_max ? rows : cost->rows_max;
    if (name != NULL && strcmp(name, relation) == 0 && (rows > cost->rows || cost->scan[0] == '\0')) {
        const char *type = json_string_value(json_object_get(node, "Node Type"));
        /* A bitmap scan has its index below it. */
        const json_t *child = json_array_get(json_object_get(node, "Plans"), 0);
        const json_t *index = json_object_get(child == NULL ? node : child, "Index Name");
        cost->rows = rows;
        snprintf(cost->scan, sizeof cost->scan, "%s", type);
        snprintf(cost->index, sizeof cost->index, "%s", index == NULL ? "" : json_string_value(index));
    }
    size_t i;
    json_t *below;
    json_array_foreach(json_object_get(node, "Plans"), i, below) weigh(below, relation, cost);
}

struct plan_cost plan_explain(struct world *w, const char *execute, const char *relation)
{
    char *text = malloc(PLAN_BYTES);
    world_text(w, text, PLAN_BYTES, "EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) %s", execute);
    json_t *plan = json_loads(text, 0, NULL);
    cr_assert_not_null(plan, "not JSON: %.200s", text);
    const json_t *root = json_object_get(json_array_get(plan, 0), "Plan");
    struct plan_cost cost = {.rows_max = 0};
    cost.blocks = number_of(root, "Shared Hit Blocks") + number_of(root, "Shared Read Blocks");
    weigh(root, relation, &cost);
    json_decref(plan);
    free(text);
    return cost;
}
