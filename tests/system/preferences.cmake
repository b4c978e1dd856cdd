# The account service: who is not pushed to, how often it is asked, what happens without it.
belfry_program(system_preferences SOURCES preferences_test.c LINK belfry_harness)
add_dependencies(system_preferences belfry-dispatcher belfry-dispatcher-crash belfry-reconciler belfry-simulator)
foreach(case prf_01 prf_08)
    belfry_system(dispatcher_1_${case} system_preferences cases/${case} 180)
endforeach()
foreach(test batching breaker reread crash_consult)
    belfry_system(dispatcher_1_preferences_${test} system_preferences preferences/${test} 180)
endforeach()
