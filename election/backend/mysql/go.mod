module github.com/conclave-project/conclave/election/backend/mysql

go 1.26.0

require (
	github.com/conclave-project/conclave v0.0.0
	github.com/go-sql-driver/mysql v1.10.1
)

require filippo.io/edwards25519 v1.2.0 // indirect
