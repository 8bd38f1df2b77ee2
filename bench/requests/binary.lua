-- Four numbers for the tiny model, by the binary tensor extension both ways
local document = '{"inputs":[{"name":"x","shape":[1,4],"datatype":"FP32",'
  .. '"parameters":{"binary_data_size":16}}],'
  .. '"outputs":[{"name":"y","parameters":{"binary_data":true}}]}'
-- 1.0, 2.0, 3.0 and 4.0 as little-endian FP32
local numbers = "\0\0\128\63\0\0\0\64\0\0\64\64\0\0\128\64"

wrk.method = "POST"
wrk.path = "/v2/models/tiny/infer"
wrk.headers["Content-Type"] = "application/octet-stream"
wrk.headers["Inference-Header-Content-Length"] = tostring(#document)
wrk.body = document .. numbers
