module github.com/conclave-project/conclave

go 1.26
