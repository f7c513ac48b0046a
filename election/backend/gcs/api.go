package gcs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"net/url"
	"strconv"
)

const (
	// bytesMax is the size of the largest object that is read. A record has a few KB.
	bytesMax = 1 << 20
	// pageBytesMax is the size of the largest page of a list that is read: a thousand
	// names.
	pageBytesMax = 16 << 20
)

// api makes four calls of the JSON API on one bucket. Each call is one request.
type api struct {
	client           http.Client
	endpoint, bucket string
}

func newAPI(client *http.Client, options Options) *api {
	a := &api{client: *client, endpoint: options.Endpoint, bucket: options.Bucket}
	// A redirect would turn a write into a read, or send the credentials to another host.
	a.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return a
}

// objects returns the URL of the bucket's objects below one of the API's two roots.
func (a *api) objects(root string) string {
	return a.endpoint + root + "/storage/v1/b/" + url.PathEscape(a.bucket) + "/o"
}

// get returns an object and its generation.
func (a *api) get(ctx context.Context, key string) (data []byte, generation string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, a.objects("")+"/"+url.PathEscape(key)+"?alt=media", nil)
	if err != nil {
		return nil, "", err
	}
	data, header, err := a.do(request, bytesMax)
	if err != nil {
		return nil, "", err
	}
	generation, err = generationOf(header.Get("X-Goog-Generation"))
	return data, generation, err
}

// insert writes an object if it has that generation ("0" for no object), and returns the
// new one. The request has two parts: the object's attributes and its content.
func (a *api) insert(ctx context.Context, key string, data []byte, generation string) (string, error) {
	about, err := json.Marshal(map[string]string{
		"name": key, "contentType": "application/json", "cacheControl": "no-store", // gcs-G5
		"storageClass": "STANDARD", // other classes charge for objects that are soon replaced
	})
	if err != nil {
		return "", err
	}
	var body bytes.Buffer
	parts := multipart.NewWriter(&body)
	for _, part := range [][]byte{about, data} {
		w, err := parts.CreatePart(textproto.MIMEHeader{"Content-Type": {"application/json"}})
		if err == nil {
			_, err = w.Write(part)
		}
		if err != nil {
			return "", err
		}
	}
	if err := parts.Close(); err != nil {
		return "", err
	}
	query := url.Values{"uploadType": {"multipart"}, "ifGenerationMatch": {generation}, "fields": {"generation"}}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, a.objects("/upload")+"?"+query.Encode(), &body)
	if err != nil {
		return "", err
	}
	request.Header.Set("Content-Type", "multipart/related; boundary="+parts.Boundary())
	answer, _, err := a.do(request, bytesMax)
	if err != nil {
		return "", err
	}
	var made struct {
		Generation string `json:"generation"`
	}
	if err := json.Unmarshal(answer, &made); err != nil {
		return "", fmt.Errorf("what was answered is no JSON: %w", err)
	}
	return generationOf(made.Generation)
}

// list returns the names of the objects below a prefix, and the token of the next page
// (empty after the last).
func (a *api) list(ctx context.Context, prefix, page string) (names []string, next string, err error) {
	query := url.Values{"prefix": {prefix}, "fields": {"items(name),nextPageToken"}}
	if page != "" {
		query.Set("pageToken", page)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, a.objects("")+"?"+query.Encode(), nil)
	if err != nil {
		return nil, "", err
	}
	answer, _, err := a.do(request, pageBytesMax)
	if err != nil {
		return nil, "", err
	}
	var list struct {
		Items []struct {
			Name string `json:"name"`
		} `json:"items"`
		NextPageToken string `json:"nextPageToken"`
	}
	if err := json.Unmarshal(answer, &list); err != nil {
		return nil, "", fmt.Errorf("what was answered is no list: %w", err)
	}
	for _, item := range list.Items {
		names = append(names, item.Name)
	}
	return names, list.NextPageToken, nil
}

// remove deletes an object.
func (a *api) remove(ctx context.Context, key string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodDelete, a.objects("")+"/"+url.PathEscape(key), nil)
	if err != nil {
		return err
	}
	_, _, err = a.do(request, bytesMax)
	return err
}

// do makes one request, and returns the answer if its status is success.
func (a *api) do(request *http.Request, most int64) ([]byte, http.Header, error) {
	answer, err := a.client.Do(request)
	if err != nil {
		return nil, nil, withoutURL(err)
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, most+1))
	closed := answer.Body.Close()
	switch {
	case answer.StatusCode < 200 || answer.StatusCode > 299:
		return nil, nil, newStatusError(answer.StatusCode, body) // with as much of the text as has arrived
	case err != nil || closed != nil:
		return nil, nil, errors.Join(err, closed)
	case int64(len(body)) > most:
		return nil, nil, fmt.Errorf("%w (it has more than %d bytes)", errNotOurs, most)
	}
	return body, answer.Header, nil
}

// withoutURL removes the request from the text of an error; other parts say what was being
// done.
func withoutURL(err error) error {
	var failed *url.Error
	if errors.As(err, &failed) {
		return failed.Err
	}
	return err
}

// generationOf checks a generation that the store has returned.
func generationOf(text string) (string, error) {
	if n, err := strconv.ParseInt(text, 10, 64); err != nil || n <= 0 {
		return "", fmt.Errorf("%w: %q", errNoGeneration, text)
	}
	return text, nil
}
