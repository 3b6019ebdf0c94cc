--[[ write-lock/shorten: end the lease of a writer after a given time, if it would last longer. Never extends it, and never
     cuts what the writer reads.
     KEYS[1] lock         hash: mode -> read or write, reader -> hold count, "<writer>:write" -> hold count
     ARGV[1] leaseTimeMs  ms, > 0
     ARGV[2] holder       "<client id>:<owner id>:write"
     ARGV[3] prefix       what the keys of read holds begin with
     Reply   integer      1 done, 0 this owner does not write ]]
-- include lease/cut
-- include read-lock/all-readers
if redis.call('hexists', KEYS[1], ARGV[2]) == 0 then
  return 0
end
cutLease(KEYS[1], math.max(tonumber(ARGV[1]), longestReadOfAll(KEYS[1], ARGV[3])))
return 1
