"""The Model Context Protocol: surfaces become SDK servers, HTTP requests become calls.

`server` knows the SDK's registry, `http` its dispatch kernel; `json_body` and
`envelope` read what a client sent. Tokens, hosts, routes and body limits are the
web room's business.
"""
