package redact

import "testing"

func TestNoSecretOfAURLIsShown(t *testing.T) {
	for given, want := range map[string]string{
		"":                               "",
		"etcd://a:2379,b:2379/services":  "etcd://a:2379,b:2379/services",
		"s3://bucket/a?region=x&poll=2":  "s3://bucket/a?region=x&poll=2",
		"s3://user:secret@bucket/a":      "s3://xxxxx@bucket/a",
		"consul://secret@a:8500":         "consul://xxxxx@a:8500",
		"a:secret@b":                     "xxxxx@b",
		"etcd://u:se/cr?et@a:1":          "etcd://xxxxx@a:1",
		"etcd://u:se@cret@a:1,u:secret@": "etcd://xxxxx@",
		"s3://b?Secret_Access_Key=secret&region=x&token": "s3://b?Secret_Access_Key=xxxxx&region=x&token",
		"s3://b?endpoint=http://u:secret@c":              "s3://xxxxx@c",
		"%zz:secret@":                                    "xxxxx@",
		"sqlserver://b?user=a;password=secret;x=1":       "sqlserver://b?user=a;password=xxxxx;x=1",
		"s3://b?a=1&":                                    "s3://b?a=1&",
		"host=b user=a password='a secret' dbname=c":     "host=b user=a password=xxxxx",
		"host=b, Password = secret":                      "host=b, Password =xxxxx",
		"AccountName=a;AccountKey=c2VjcmV0==;Suffix=b":   "AccountName=a;AccountKey=xxxxx",
		"b:2181/a=key,c":                                 "b:2181/a=key,c",
	} {
		if got := URL(given); got != want {
			t.Errorf("of %q there is %q, want %q", given, got, want)
		}
	}
}
