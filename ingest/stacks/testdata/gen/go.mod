module waits.example

go 1.20
