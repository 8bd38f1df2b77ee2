-- As json.lua, but the head of each request is new, as with the header of a trace
wrk.method = "POST"
wrk.path = "/v2/models/tiny/infer"
wrk.headers["Content-Type"] = "application/json"
wrk.body = '{"inputs":[{"name":"x","shape":[1,4],"datatype":"FP32","data":[1.0,2.0,3.0,4.0]}]}'

local number = 0

function request()
  number = number + 1
  wrk.headers["traceparent"] = string.format("00-%032x-0000000000000001-01", number)
  return wrk.format()
end
