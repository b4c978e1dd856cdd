# Fan-out: the real dispatcher, with a reconciler to see the states.
belfry_program(system_fanout SOURCES fanout_test.c LINK belfry_harness)
add_dependencies(system_fanout belfry-dispatcher belfry-dispatcher-crash belfry-reconciler belfry-simulator)
foreach(case fan_02 fan_05 fan_08 tkt_01 tkt_04)
    belfry_system(foundation_5_${case} system_fanout cases/${case} 180)
endforeach()
foreach(point window send published)
    belfry_system(fanout_crash_${point} system_fanout fanout/crash_${point} 180)
endforeach()
