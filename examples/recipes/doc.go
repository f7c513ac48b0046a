// Package recipes contains the functions that docs/recipes.md shows, one file for each recipe. They
// are meant to be copied: each takes a client or a store, and does one thing. The tests run all of
// them on servers of their own.
package recipes
