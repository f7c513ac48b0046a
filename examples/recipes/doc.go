// Package recipes has the functions that docs/recipes.md shows, one file for each recipe. They are
// written to be copied: each takes a client or a store, and does one thing. The tests run all of
// them on servers of their own.
package recipes
