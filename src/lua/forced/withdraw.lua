--[[ forced/withdraw: delete a mark, unless another one has replaced it.
     KEYS[1] mark     string, as written by forced/mark
     ARGV[1] content  of the mark
     Reply   integer  1 deleted, 0 it was not there ]]
if redis.call('get', KEYS[1]) ~= ARGV[1] then
  return 0
end
return redis.call('del', KEYS[1])
