module github.com/conclave-project/conclave/cmd/conclave

go 1.26

require github.com/conclave-project/conclave v0.0.0

replace github.com/conclave-project/conclave => ../..
