module github.com/conclave-project/conclave/election/backend/gcs

go 1.26

require (
	github.com/conclave-project/conclave v0.0.0
	golang.org/x/oauth2 v0.36.0
)

require cloud.google.com/go/compute/metadata v0.3.0 // indirect
