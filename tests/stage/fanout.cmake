# Windows, leases, and the fan-out thread alone.
belfry_stage(window window one_owner_takes_each_ordinal_once recipients_come_once_and_nothing_moves tokens_are_as_they_are_now
    a_row_goes_only_when_nothing_is_unsent
    release_puts_back_what_was_not_begun urgent_first_then_oldest looks_up_by_primary_key)
add_library(stage_fanout_bench STATIC fanout_bench.c)
target_link_libraries(stage_fanout_bench PRIVATE belfry_flags belfry_test_flags PUBLIC belfry_fanout stage_store_fixture)
belfry_stage(fanout fanout sends_reports_and_deletes_the_batch
    a_dead_owners_window_is_unconfirmed_and_the_rest_is_sent stop_leaves_the_rest_unsent_and_ends_the_leases
    what_is_not_answered_by_shutdown_is_unconfirmed the_database_goes_and_comes_back
    waits_for_its_topic_before_it_takes_anything outcomes_wait_for_their_topic)
target_link_libraries(stage_fanout PRIVATE stage_fanout_bench)
belfry_program(stage_fanout_outage SOURCES fanout_outage_test.c LINK stage_fanout_bench)
# Issue "The dispatcher at full strength", Fan-out: sentences that the thread alone shows.
# belfry_line(<dispatcher_1_…> <program> <suite/test>)
function(belfry_line name program filter)
    belfry_test(dispatcher_1_${name} LABEL stage PROGRAM ${program} FILTER ${filter} TIMEOUT 120 SERVICES)
endfunction()
belfry_line(fence_gone stage_window window/leases_run_out_by_the_databases_clock)
belfry_line(low_traffic stage_fanout_outage fanout_outage/the_first_message_of_an_outage_is_not_given_up)
belfry_line(trials_go_round stage_fanout_outage fanout_outage/one_bad_message_does_not_keep_the_breaker_open)
belfry_line(left_behind stage_fanout_outage fanout_outage/what_a_dead_owner_risked_is_told_all_the_same)
belfry_line(owners_renew_first
    stage_fanout_outage fanout_outage/after_an_outage_owners_may_renew_before_they_are_taken_over)
belfry_line(preferences_quiet stage_fanout_outage fanout_outage/nobody_is_asked_for_while_nothing_is_sent)
