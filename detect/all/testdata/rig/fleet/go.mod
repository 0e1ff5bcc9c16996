module example.com/rig/fleet

go 1.26.0
