# Retention's statements, and what ingest notices of them.
belfry_program(stage_retain SOURCES retain_test.c LINK stage_reconcile_fixture stage_store_fixture)
foreach(test dispatches_go_by_age_unless_owed notifications_stay_as_long_as_their_dispatches
        a_locked_row_is_passed_over two_at_once_remove_each_row_once an_erasure_meanwhile_keeps_the_books
        keys_go_round_the_heap silent_tokens_go_stale_and_registering_wins exports_expire_are_emptied_and_go
        batches_that_polling_left_behind_go ingest_waits_for_nothing a_claim_waits_for_its_key_alone
        one_at_a_time_by_lease)
    belfry_test(reconciler_retain_${test} LABEL stage PROGRAM stage_retain FILTER retain/${test} TIMEOUT 120 SERVICES)
endforeach()
