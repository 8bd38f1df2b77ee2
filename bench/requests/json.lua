-- Four numbers for the tiny model, as JSON both ways: wrk -s bench/requests/json.lua URL
wrk.method = "POST"
wrk.path = "/v2/models/tiny/infer"
wrk.headers["Content-Type"] = "application/json"
wrk.body = '{"inputs":[{"name":"x","shape":[1,4],"datatype":"FP32","data":[1.0,2.0,3.0,4.0]}]}'
